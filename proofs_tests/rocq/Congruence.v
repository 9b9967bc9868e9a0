(* One lemma for each way down into a term. Two tensors are equal at every position within their extents if their parts
   are so at every position within theirs: what is left to show of a part is a new position and its bounds, no more. *)
Require Export Lemmas.

Module Make (S : SCALARS).
Module L := Lemmas.Make S.
Export L.

Lemma down_gen lo hi f g i r : 0 <= i < hi - lo -> (forall x, lo <= x < hi -> f x r = g x r) ->
  gen lo f (i :: r) = gen lo g (i :: r).
Proof. intros ? H. apply H. lia. Qed.
Lemma down_reduce op lo hi f g p : (forall x, lo <= x < hi -> f x p = g x p) ->
  reduce op lo hi f p = reduce op lo hi g p.
Proof. apply fold_ext. Qed.
Lemma down_guard b v w p : (b = true -> v p = w p) -> guard b v p = guard b w p.
Proof. unfold guard. destruct b; auto. Qed.
Lemma down_bind x v w p : (forall y, v y p = w y p) -> bind x v p = bind x w p.
Proof. intros H. apply H. Qed.
Lemma down_access n m v w i p : n = m -> (0 <= i < n -> v (i :: p) = w (i :: p)) -> access n v i p = access m w i p.
Proof. intros <- H. unfold access. destruct ((0 <=? i) && (i <? n)) eqn:?; [apply H; lia | reflexivity]. Qed.
Lemma down_unary g v w p : v p = w p -> unary g v p = unary g w p.
Proof. unfold unary. congruence. Qed.
Lemma down_left g u v w p : v p = w p -> binary g v u p = binary g w u p.
Proof. unfold binary. congruence. Qed.
Lemma down_right g u v w p : v p = w p -> binary g u v p = binary g u w p.
Proof. unfold binary. congruence. Qed.
Lemma down_where b u v w p : (b = true -> v p = w p) -> select b v u p = select b w u p.
Proof. unfold select. destruct b; auto. Qed.
Lemma down_elsewhere b u v w p : (b = false -> v p = w p) -> select b u v p = select b u w p.
Proof. unfold select. destruct b; auto. Qed.
Lemma down_concat_left n m u v w i r : n = m -> 0 <= i -> (forall x, 0 <= x < n -> v (x :: r) = w (x :: r)) ->
  concat n v u (i :: r) = concat m w u (i :: r).
Proof. intros <- ? H. unfold concat. destruct (i <? n) eqn:?; [apply H; lia | reflexivity]. Qed.
Lemma down_concat_right n k u v w i r : i < n + k -> (forall x, 0 <= x < k -> v (x :: r) = w (x :: r)) ->
  concat n u v (i :: r) = concat n u w (i :: r).
Proof. intros ? H. unfold concat. destruct (i <? n) eqn:?; [reflexivity | apply H; lia]. Qed.
Lemma down_transpose v w i j r : v (j :: i :: r) = w (j :: i :: r) ->
  transpose v (i :: j :: r) = transpose w (i :: j :: r).
Proof. exact id. Qed.
Lemma down_flatten n m k v w i r : m = k -> 0 <= i < n * m ->
  (forall x y, 0 <= x < n -> 0 <= y < m -> v (x :: y :: r) = w (x :: y :: r)) ->
  0 <= m -> flatten m v (i :: r) = flatten k w (i :: r).
Proof.
  intros <- ? H ?. destruct (Z.eq_dec m 0); [subst; lia|]. assert (0 < m) by lia.
  pose proof (row_within n m i ltac:(lia) ltac:(lia)).
  pose proof (quotient_bounds i m ltac:(lia)). apply H; lia.
Qed.
Lemma down_split n m k v w i j r : n = m -> 0 <= k -> 0 <= i -> 0 <= j ->
  (forall x, 0 <= x < n -> v (x :: r) = w (x :: r)) -> split n k v (i :: j :: r) = split m k w (i :: j :: r).
Proof. intros <- ? ? ? H. unfold split. destruct (i * k + j <? n) eqn:?; [apply H; nia | reflexivity]. Qed.
Lemma down_padl n k v w i r : i < n + k -> (forall x, 0 <= x < n -> v (x :: r) = w (x :: r)) ->
  padl k v (i :: r) = padl k w (i :: r).
Proof. intros ? H. unfold padl. destruct (k <=? i) eqn:?; [apply H; lia | reflexivity]. Qed.
Lemma down_padr n m v w i r : n = m -> 0 <= i -> (forall x, 0 <= x < n -> v (x :: r) = w (x :: r)) ->
  padr n v (i :: r) = padr m w (i :: r).
Proof. intros <- ? H. unfold padr. destruct (i <? n) eqn:?; [apply H; lia | reflexivity]. Qed.
Lemma down_truncl n k v w i r : 0 <= k -> 0 <= i < n - k -> (forall x, 0 <= x < n -> v (x :: r) = w (x :: r)) ->
  truncl k v (i :: r) = truncl k w (i :: r).
Proof. intros ? ? H. apply H. lia. Qed.
Lemma down_truncr n k v w i r : 0 <= k -> 0 <= i < n - k -> (forall x, 0 <= x < n -> v (x :: r) = w (x :: r)) ->
  truncr v (i :: r) = truncr w (i :: r).
Proof. intros ? ? H. apply H. lia. Qed.
Lemma down_place a v w i r : v r = w r -> place a v (i :: r) = place a w (i :: r).
Proof. intros H. unfold place. destruct (i =? a); [exact H | reflexivity]. Qed.

(* -- what the proof of a step is made of ------------------------------------------------------------------------- *)
(* Facts of indices, from what is known. *)
Ltac as_numbers := repeat match goal with
  | |- (_ && _)%bool = true => apply andb_true_intro; split
  | |- (_ <=? _) = true => apply Z.leb_le
  | |- (_ <? _) = true => apply Z.ltb_lt
  | |- (_ =? _) = true => apply Z.eqb_eq
  | |- _ /\ _ => split end.
(* What is declared of the elements of an array of integers, at the index that is read. *)
Ltac declared := repeat match goal with |- context [_ (?i :: nil)] => match goal with
  H : forall p : Z, 0 <= p < _ -> _ |- _ => pose proof (H i ltac:(lia)); clear H end end.
Ltac known := intros; first [ lia
  | as_numbers; declared; facts; one_division; first [ lia
    | quotients; first [ lia | settled lia
      | one_quotient; first [ lia | number | nia | exfalso; nia ] ] ] ].
(* The same term, but for how its indices are written. *)
Ltac same_term := lazymatch goal with |- ?a = ?b => tryif constr_eq a b then reflexivity else lazymatch goal with
  | |- @eq Z _ _ => known
  | |- @eq bool _ _ => first [ lia | progress f_equal; same_term ]
  | |- @eq (_ -> _) _ _ => apply functional_extensionality; intros ?; cbv beta; same_term
  | |- _ => progress f_equal; same_term end end.
Ltac discharged H := repeat lazymatch type of H with
  | ?A -> _ => let K := fresh in assert (K : A) by (clear H; known); specialize (H K); clear K end.
Ltac at_position H p := lazymatch type of H with
  | forall r : list Z, _ => specialize (H p)
  | forall x : Z, _ => lazymatch p with ?i :: ?r => specialize (H i); at_position H r end end.
Ltac by_instance H :=
  discharged H; repeat lazymatch type of H with _ /\ _ => destruct H as [_ H] end;
  lazymatch goal with |- _ ?p = _ => at_position H p end; discharged H; cbv beta in H;
  etransitivity; [ | etransitivity; [ exact H | ] ]; cbv beta; same_term.
Ltac split_shapes := repeat match goal with |- _ /\ _ => split; [known | ] end.
(* A let-bound tensor may be exchanged for one that is equal within its extents, if it is read there only. *)
Lemma both g v w x y p : v p = w p -> x p = y p -> binary g v x p = binary g w y p.
Proof. unfold binary. congruence. Qed.
Lemma either b v w x y p : (b = true -> v p = w p) -> (b = false -> x p = y p) -> select b v x p = select b w y p.
Proof. unfold select. destruct b; auto. Qed.
Lemma each lo f g i r : f (lo + i) r = g (lo + i) r -> gen lo f (i :: r) = gen lo g (i :: r).
Proof. exact id. Qed.
Lemma either_part n v w x y i r : (i < n -> v (i :: r) = w (i :: r)) -> (n <= i -> x (i - n :: r) = y (i - n :: r)) ->
  concat n v x (i :: r) = concat n w y (i :: r).
Proof. intros H K. unfold concat. destruct (i <? n) eqn:?; [apply H | apply K]; lia. Qed.
Ltac reads E := cbv beta; lazymatch goal with |- ?a = ?b => tryif constr_eq a b then reflexivity else first
  [ solve [apply E; known]
  | lazymatch goal with
    | |- gen _ _ _ = _ => apply each; rewrite ?Z.add_0_l; reads E
    | |- reduce _ _ _ _ _ = _ => apply down_reduce; intros ? ?; reads E
    | |- guard _ _ _ = _ => apply down_guard; intros ?; reads E
    | |- access _ _ _ _ = _ => apply down_access; [ reflexivity | intros ?; reads E ]
    | |- unary _ _ _ = _ => apply down_unary; reads E
    | |- binary _ _ _ _ = _ => apply both; reads E
    | |- select _ _ _ _ = _ => apply either; intros ?; reads E
    | |- concat _ _ _ _ = _ => apply either_part; intros ?; reads E
    | |- transpose _ _ = _ => apply down_transpose; reads E
    | |- place _ _ _ = _ => apply down_place; reads E
    | |- bind _ _ _ = _ => unfold bind; reads E
    | |- _ => cbv beta iota delta [flatten split padl padr truncl truncr]; reads_if E end ] end
with reads_if E := lazymatch goal with
  | |- (if ?b then _ else _) = _ => destruct b eqn:?; [ reads E | reflexivity ]
  | |- _ => reads E end.
End Make.
