(* What is known of folds and of quotients, and the one proof that is tried on every rule. *)
Require Export Meaning.

Ltac arith := first [ lia | nia ].

Lemma quotient_is a b q : b * q <= a < b * q + b -> a / b = q.
Proof. intros. symmetry. apply (Z.div_unique a b q (a - b * q)); lia. Qed.
Lemma quotient_bounds a b : 0 < b -> b * (a / b) <= a < b * (a / b) + b.
Proof. intros. pose proof (Z.mul_div_le a b). pose proof (Z.mul_succ_div_gt a b). lia. Qed.
Lemma quotient_plus a y b c : 0 < b -> y = c * b -> (a + y) / b = a / b + c.
Proof. intros ? ->. apply Z.div_add. lia. Qed.
Lemma quotient_minus a y b c : 0 < b -> y = c * b -> (a - y) / b = a / b - c.
Proof. intros ? ->. replace (a - c * b) with (a + - c * b) by lia. rewrite Z.div_add by lia. lia. Qed.
Lemma quotient_of_quotient a b c : 0 < b -> 0 < c -> a / b / c = a / (b * c).
Proof. intros. apply Z.div_div; lia. Qed.
(* The bounds of q = (x / b + ...) / c in terms of b * c. *)
Lemma quotient_over a b c q : 0 < b -> c * q <= a < c * q + c -> b * (c * q) <= b * a <= b * (c * q + c - 1).
Proof. nia. Qed.
(* The row and the column of position i in rows of m are within the matrix. *)
Lemma row_within n m i : 0 <= i < n * m -> 0 < m -> 0 <= i / m < n.
Proof.
  intros. pose proof (Z.div_pos i m ltac:(lia) ltac:(lia)).
  pose proof (Z.div_lt_upper_bound i m n ltac:(lia) ltac:(nia)). lia.
Qed.
(* The number of rows of k that n elements need, as the least one that is enough. *)
Lemma rows_enough n k : 0 < k -> n <= (n + k - 1) / k * k < n + k.
Proof. intros. pose proof (quotient_bounds (n + k - 1) k). lia. Qed.
Lemma upwards (P : Z -> Prop) lo :
  (forall hi, hi <= lo -> P hi) -> (forall hi, lo < hi -> P (hi - 1) -> P hi) -> forall hi, P hi.
Proof.
  intros Start Next hi. remember (Z.to_nat (hi - lo)) as n eqn:E. revert hi E.
  induction n; intros; [apply Start; lia | apply Next; [lia | apply IHn; lia]].
Qed.

Definition hidden (P : Prop) : Prop := P.

Module Make (S : SCALARS).
Module M := Meaning.Make S.
Export M.

(* -- folds by any operation -------------------------------------------------------------------------------------- *)
Lemma first_ext op f g n : (forall k, (k < n)%nat -> f k = g k) -> first op f n = first op g n.
Proof.
  induction n as [|[|n] IH]; intros H; [reflexivity | apply H; lia |].
  transitivity (op (first op f (S n)) (f (S n))); [reflexivity|].
  rewrite IH, (H (S n)) by (intros; try apply H; lia). reflexivity.
Qed.
Lemma fold_ext op lo hi f g : (forall i, lo <= i < hi -> f i = g i) -> fold op lo hi f = fold op lo hi g.
Proof. intros H. apply first_ext. intros. apply H. lia. Qed.
Lemma fold_empty op lo hi f : hi <= lo -> fold op lo hi f = zero.
Proof. intros. unfold fold. replace (Z.to_nat (hi - lo)) with O by lia. reflexivity. Qed.
Lemma fold_one op lo hi f : hi = lo + 1 -> fold op lo hi f = f lo.
Proof. intros ->. unfold fold. replace (Z.to_nat (lo + 1 - lo)) with 1%nat by lia. cbn. f_equal. lia. Qed.
Lemma fold_last op lo hi f : lo + 1 < hi -> fold op lo hi f = op (fold op lo (hi - 1) f) (f (hi - 1)).
Proof.
  intros. unfold fold. destruct (Z.to_nat (hi - 1 - lo)) as [|m] eqn:E; [lia|].
  replace (Z.to_nat (hi - lo)) with (S (S m)) by lia.
  replace (hi - 1) with (lo + Z.of_nat (S m)) by lia. reflexivity.
Qed.
Lemma fold_shift op d lo hi f : fold op lo hi f = fold op (lo + d) (hi + d) (fun i => f (i - d)).
Proof. unfold fold. replace (hi + d - (lo + d)) with (hi - lo) by lia. apply first_ext. intros. f_equal. lia. Qed.
Lemma fold_move op a b c d f g :
  b - a = d - c -> (forall i, a <= i < b -> f i = g (i + (c - a))) -> fold op a b f = fold op c d g.
Proof.
  intros E H. rewrite (fold_shift op (c - a) a b). replace (a + (c - a)) with c by lia.
  replace (b + (c - a)) with d by lia. apply fold_ext. intros. rewrite H by lia. f_equal. lia.
Qed.
(* Induction on the number of terms: none, one, and one more. *)
Ltac fold_cases hi lo :=
  pattern hi; apply (upwards _ lo); clear hi; intros hi ?;
  [ intros; rewrite ?fold_empty by lia
  | intros ?IH; intros; destruct (Z.eq_dec hi (lo + 1));
    [ rewrite ?(fold_one _ lo hi) by lia | rewrite ?(fold_last _ lo hi) by lia ] ].

(* What is asked of an operation by the laws below; zero is what an empty fold within reads as. *)
Record monoid (op : scalar -> scalar -> scalar) : Prop := {
  assoc : forall a b c, op (op a b) c = op a (op b c);
  comm : forall a b, op a b = op b a;
  zeros : op zero zero = zero }.
Lemma add_monoid : monoid add. Proof. split; intros; ring. Qed.
Lemma mul_monoid : monoid mul. Proof. split; intros; ring. Qed.
Lemma least_monoid : monoid least.
Proof. split; intros; [apply least_assoc | apply least_comm | apply least_same]. Qed.
Lemma greatest_monoid : monoid greatest.
Proof. split; intros; [apply greatest_assoc | apply greatest_comm | apply greatest_same]. Qed.

Section Monoids.
Variable op : scalar -> scalar -> scalar.
Hypothesis law : monoid op.
Lemma exchange a b c d : op (op a b) (op c d) = op (op a c) (op b d).
Proof. destruct law as [A C _]. rewrite !A, <- (A b), (C b c), (A c). reflexivity. Qed.
Lemma fold_zeros lo hi : fold op lo hi (fun _ => zero) = zero.
Proof. fold_cases hi lo; [reflexivity.. |]. rewrite IH. apply (zeros _ law). Qed.
Lemma fold_all_zero lo hi f : (forall i, lo <= i < hi -> f i = zero) -> fold op lo hi f = zero.
Proof. intros H. rewrite (fold_ext _ _ _ _ _ H). apply fold_zeros. Qed.
Lemma fold_pairs lo hi f g : fold op lo hi (fun i => op (f i) (g i)) = op (fold op lo hi f) (fold op lo hi g).
Proof. fold_cases hi lo; [symmetry; apply (zeros _ law) | reflexivity |]. rewrite IH. apply exchange. Qed.
Lemma fold_cut k lo hi f : lo < k < hi -> fold op lo hi f = op (fold op lo k f) (fold op k hi f).
Proof.
  fold_cases hi k; [lia | |].
  - replace hi with (k + 1) by lia. rewrite (fold_last op lo (k + 1)) by lia. do 2 f_equal; lia.
  - rewrite (fold_last op lo hi), IH by lia. apply (assoc _ law).
Qed.
Lemma fold_swap a b c d f :
  fold op a b (fun i => fold op c d (fun j => f i j)) = fold op c d (fun j => fold op a b (fun i => f i j)).
Proof.
  fold_cases b a.
  - symmetry. apply fold_all_zero. intros. apply fold_empty. lia.
  - apply fold_ext. intros. rewrite fold_one by lia. reflexivity.
  - rewrite IH, <- fold_pairs. apply fold_ext. intros. rewrite (fold_last op a b) by lia. reflexivity.
Qed.
Lemma fold_reverse lo hi f : fold op lo hi f = fold op lo hi (fun i => f (lo + hi - 1 - i)).
Proof.
  revert f. fold_cases hi lo; [reflexivity | f_equal; lia |]. rewrite <- (fold_last op lo hi f) by lia.
  rewrite (fold_cut (lo + 1) lo hi f), (fold_one op lo (lo + 1)) by lia. rewrite (comm _ law).
  f_equal; [| f_equal; lia].
  rewrite (fold_move op (lo + 1) hi lo (hi - 1) f (fun i => f (i + 1))) by (intros; first [lia | f_equal; lia]).
  rewrite IH.
  apply fold_ext. intros. f_equal. lia.
Qed.
(* Blocks of k terms, of which the last one ends where the range does. *)
Lemma fold_blocks n k f : 0 < k ->
  fold op 0 n f = fold op 0 ((n + k - 1) / k) (fun o => fold op 0 (Z.min k (n - o * k)) (fun i => f (o * k + i))).
Proof.
  intros K. pose proof (rows_enough n k K) as E. remember ((n + k - 1) / k) as q eqn:D. clear D. revert n E.
  fold_cases q 0.
  - rewrite ?fold_empty by nia. reflexivity.
  - apply fold_move; [lia | intros; f_equal; lia].
  - transitivity (op (fold op 0 ((q - 1) * k) f) (fold op ((q - 1) * k) n f)); [apply fold_cut; nia|].
    f_equal; [| apply fold_move; [lia | intros; f_equal; lia]].
    rewrite (IH ((q - 1) * k)) by lia. apply fold_ext. intros. f_equal. nia.
Qed.
Lemma fold_rows n k f : 0 < k ->
  fold op 0 n (fun i => fold op 0 k (fun j => f (i * k + j))) = fold op 0 (n * k) f.
Proof.
  intros K. rewrite (fold_blocks (n * k) k) by exact K.
  replace ((n * k + k - 1) / k) with n by (symmetry; apply quotient_is; lia).
  apply fold_ext. intros. f_equal. nia.
Qed.
End Monoids.

(* -- sums -------------------------------------------------------------------------------------------------------- *)
Lemma sum_last lo hi f : lo < hi -> fold add lo hi f = add (fold add lo (hi - 1) f) (f (hi - 1)).
Proof.
  intros. destruct (Z.eq_dec hi (lo + 1)) as [->|]; [| apply fold_last; lia].
  rewrite fold_one, fold_empty by lia. replace (lo + 1 - 1) with lo by lia. ring.
Qed.
Lemma sum_cut k lo hi f : lo <= k <= hi -> fold add lo hi f = add (fold add lo k f) (fold add k hi f).
Proof.
  intros. destruct (Z.eq_dec lo k) as [->|]; [rewrite (fold_empty add k k) by lia; ring|].
  destruct (Z.eq_dec k hi) as [->|]; [rewrite (fold_empty add hi hi) by lia; ring|].
  apply fold_cut; [exact add_monoid | lia].
Qed.
Ltac sum_cases hi lo := pattern hi; apply (upwards _ lo); clear hi; intros hi ?;
  [ intros; rewrite ?fold_empty by lia | intros ?IH; intros; rewrite ?(sum_last lo hi) by lia ].
Lemma sum_add lo hi f g : fold add lo hi (fun i => add (f i) (g i)) = add (fold add lo hi f) (fold add lo hi g).
Proof. apply fold_pairs, add_monoid. Qed.
Lemma sum_sub lo hi f g : fold add lo hi (fun i => sub (f i) (g i)) = sub (fold add lo hi f) (fold add lo hi g).
Proof. sum_cases hi lo; [ring|]. rewrite IH. ring. Qed.
Lemma sum_neg lo hi f : fold add lo hi (fun i => neg (f i)) = neg (fold add lo hi f).
Proof. sum_cases hi lo; [ring|]. rewrite IH. ring. Qed.
Lemma sum_mul_left lo hi c f : fold add lo hi (fun i => mul c (f i)) = mul c (fold add lo hi f).
Proof. sum_cases hi lo; [ring|]. rewrite IH. ring. Qed.
Lemma sum_mul_right lo hi c f : fold add lo hi (fun i => mul (f i) c) = mul (fold add lo hi f) c.
Proof. sum_cases hi lo; [ring|]. rewrite IH. ring. Qed.
Lemma sum_if (b : bool) lo hi f :
  fold add lo hi (fun i => if b then f i else zero) = if b then fold add lo hi f else zero.
Proof. destruct b; [reflexivity | apply fold_zeros, add_monoid]. Qed.
Lemma sum_zeros lo hi f : (forall i, lo <= i < hi -> f i = zero) -> fold add lo hi f = zero.
Proof. apply fold_all_zero, add_monoid. Qed.
Lemma sum_const lo hi c : lo <= hi -> fold add lo hi (fun _ => c) = mul (integer (hi - lo)) c.
Proof.
  sum_cases hi lo.
  - replace (hi - lo) with 0 by lia. rewrite integer_0. ring.
  - rewrite IH by lia. replace (hi - lo) with (hi - 1 - lo + 1) by lia. rewrite integer_add, integer_1. ring.
Qed.
(* Terms that are zero beyond a range within. *)
Lemma sum_within a b lo hi f : lo <= a -> b <= hi -> (forall i, lo <= i < hi -> ~ a <= i < b -> f i = zero) ->
  fold add lo hi f = fold add a b f.
Proof.
  intros ? ? H. destruct (Z_le_gt_dec a b);
    [| rewrite (fold_empty add a b) by lia; apply sum_zeros; intros; apply H; lia].
  rewrite (sum_cut a lo hi), (sum_cut b a hi), (sum_zeros lo a), (sum_zeros b hi) by (intros; try apply H; lia). ring.
Qed.
Lemma sum_delta a lo hi f : (forall i, lo <= i < hi -> i <> a -> f i = zero) ->
  fold add lo hi f = if (lo <=? a) && (a <? hi) then f a else zero.
Proof.
  intros H. destruct ((lo <=? a) && (a <? hi)) eqn:E; [| apply sum_zeros; intros; apply H; lia].
  rewrite (sum_within a (a + 1)), fold_one by (intros; try apply H; lia). reflexivity.
Qed.
Lemma sum_blocks n k f : 0 < k -> fold add 0 n f =
  fold add 0 ((n + k - 1) / k) (fun o => fold add 0 k (fun i => if o * k + i <? n then f (o * k + i) else zero)).
Proof.
  intros K. rewrite (fold_blocks add add_monoid n k) by exact K. apply fold_ext. intros o ?.
  rewrite (sum_within 0 (Z.min k (n - o * k)) 0 k) by
    (intros; try destruct (Z.ltb_spec (o * k + i) n); try reflexivity; lia).
  apply fold_ext. intros. destruct (Z.ltb_spec (o * k + i) n); [reflexivity | lia].
Qed.

(* -- the one proof ----------------------------------------------------------------------------------------------- *)
Ltac unfolded := cbv beta iota delta [gen reduce guard bind access unary binary select literal padding integers concat
  transpose flatten split padl padr truncl truncr place over] in *.
(* Conditions, from the inside out: true, false, or both cases. *)
Ltac decided := repeat (match goal with |- context [if ?b then _ else _] =>
  lazymatch b with context [if _ then _ else _] => fail | _ =>
    first [ replace b with true by lia | replace b with false by lia | destruct b eqn:? ] end end; cbv iota).
Ltac decided_well := repeat (match goal with |- context [if ?b then _ else _] =>
  lazymatch b with context [if _ then _ else _] => fail | _ =>
    first [ replace b with true by arith | replace b with false by arith | destruct b eqn:? ] end end; cbv iota).
Ltac truths := repeat match goal with b : bool |- _ => destruct b end; cbn [andb orb negb] in *; try discriminate.
(* What is obliged under binders, at the indices at hand. *)
Ltac instances := repeat match goal with
  | H : (forall x : Z, _ = true -> _ = true -> ?Q = true), i : Z |- _ =>
      lazymatch goal with _ : Q = true |- _ => fail | _ => assert (Q = true) by (apply (H i); lia) end end.
(* Conditions as propositions. *)
Ltac facts := repeat match goal with
  | H : (_ && _)%bool = true |- _ => apply andb_prop in H; destruct H
  | H : (_ <=? _) = true |- _ => apply Z.leb_le in H
  | H : (_ <? _) = true |- _ => apply Z.ltb_lt in H
  | H : (_ =? _) = true |- _ => apply Z.eqb_eq in H
  | H : (_ <=? _) = false |- _ => apply Z.leb_gt in H
  | H : (_ <? _) = false |- _ => apply Z.ltb_ge in H
  | H : (_ =? _) = false |- _ => apply Z.eqb_neq in H
  | H : (_ && _)%bool = false |- _ => apply andb_false_iff in H; destruct H
  | H : (_ || _)%bool = false |- _ => apply orb_false_iff in H; destruct H
  | H : (_ || _)%bool = true |- _ => apply orb_prop in H; destruct H
  | H : ?x - ?y = 0 |- _ => first [ is_var x; assert (x = y) by lia; clear H; subst x
                                  | is_var y; assert (y = x) by lia; clear H; subst y ]
  | H : negb _ = true |- _ => apply negb_true_iff in H
  | H : negb _ = false |- _ => apply negb_false_iff in H end.
Ltac one_division := repeat match goal with
  | |- context [?a / ?b / ?c] => rewrite (quotient_of_quotient a b c) in * by arith
  | _ : context [?a / ?b / ?c] |- _ => rewrite (quotient_of_quotient a b c) in * by arith end.
(* Whole multiples of the divisor leave a quotient. *)
Ltac without_multiples a b := match a with
  | ?x - ?y => match y with context C [b] => let c := context C [1] in
      rewrite (quotient_minus x y b c) in * by lia end
  | ?x + ?y => match y with context C [b] => let c := context C [1] in
      rewrite (quotient_plus x y b c) in * by lia end
  | ?y + ?x => match y with context C [b] => let c := context C [1] in
      replace (a / b) with (x / b + c) in * by (rewrite <- (quotient_plus x y b c) by lia; f_equal; lia) end end.
(* A quotient is a number within its bounds; what it is stays at hand. *)
Ltac named a b :=
  let q := fresh "q" in let E := fresh "E" in let B := fresh "B" in
  pose proof (quotient_bounds a b ltac:(arith)) as B; remember (a / b) as q eqn:E in *;
  try match goal with F : hidden (?inner = _ / ?d) |- _ =>
    match a with context [inner] => pose proof (quotient_over a d b q ltac:(arith) B) end end;
  try assert (0 <= q) by (rewrite E; apply Z.div_pos; arith); change (hidden (q = a / b)) in E.
Ltac quotient a b := first [ without_multiples a b | named a b ].
Ltac quotients := repeat match goal with
  | |- context [?a / ?b] => lazymatch a with context [_ / _] => fail | _ => quotient a b end
  | H : context [?a / ?b] |- _ => lazymatch type of H with hidden _ => fail | _ =>
      lazymatch a with context [_ / _] => fail | _ => quotient a b end end end.
(* Quotients that are zero, or something that has a name already. *)
Ltac one_quotient := repeat match goal with
  | E : hidden (?q = ?a / ?b) |- _ =>
      assert (q = 0) by (transitivity (a / b); [exact E | apply quotient_is; lia]); clear E; subst q
  | E : hidden (?q = ?a / ?b), c : Z |- _ => tryif constr_eq c q then fail else
      (assert (q = c) by (transitivity (a / b); [exact E | apply quotient_is; lia]); clear E; subst q) end.
Ltac prepared := instances; facts; rewrite ?Z.add_0_l in *; quotients; one_quotient.
(* x = y, where one of the quotients in them is what makes it so. *)
Ltac settled by_ := match goal with |- ?x = ?y => match goal with E : hidden (?q = ?a / ?b) |- _ =>
  enough (q = q - x + y) by lia; transitivity (a / b); [exact E | apply quotient_is; by_] end end.
Ltac number := first [ lia | settled lia | nia | settled nia ].
Ltac symbols := rewrite ?absolute_0, ?root_0, ?tangent_0, ?integer_0, ?integer_1, ?least_same, ?greatest_same.
(* Equal arguments make equal values. *)
Ltac alike := repeat first [ reflexivity | lazymatch goal with |- @eq Z _ _ => number end | progress f_equal ].
Ltac plainly := repeat first [ reflexivity | lazymatch goal with |- @eq Z _ _ => lia end | progress f_equal ].
Ltac monoids := first [ apply add_monoid | apply mul_monoid | apply least_monoid | apply greatest_monoid ].
Ltac leaf := symbols; first
  [ solve [reflexivity] | solve [ring] | solve [plainly] | solve [exfalso; lia]
  | solve [prepared; decided; facts; first
      [ solve [exfalso; lia] | solve [plainly] | ring | solve [alike] | solve [exfalso; nia] ]]
  | solve [apply least_comm] | solve [apply greatest_comm] | solve [apply least_assoc] | solve [apply greatest_assoc] ].
Ltac extended := repeat (let y := fresh "y" in apply functional_extensionality; intros y; cbv beta).
Ltac linear := repeat first [ rewrite sum_add | rewrite sum_sub | rewrite sum_neg | rewrite sum_mul_left
  | rewrite sum_mul_right | rewrite sum_if | rewrite fold_zeros by monoids ].
Ltac inside := first [ apply fold_ext; intros ?i ?within | apply fold_all_zero; [monoids | intros ?i ?within]
  | symmetry; apply fold_all_zero; [monoids | intros ?i ?within] ]; cbv beta.
(* Down into folds and arguments, n deep. *)
Ltac descend n := first [ solve [leaf] | solve [decided; leaf] | lazymatch n with
  | O => fail
  | Datatypes.S ?m => first
      [ solve [inside; descend m] | solve [decided; first [inside; descend m | leaf]]
      | solve [progress linear; descend m] | solve [f_equal; extended; descend m] ] end ].
Ltac one_term := match goal with a : Z |- fold add ?lo ?hi _ = _ =>
  rewrite (sum_delta a lo hi) by (intros; decided_well; truths; leaf) end.
Ltac by_rows := match goal with |- fold ?op 0 ?n (fun i => fold ?op 0 ?k _) = fold ?op 0 ?b ?g =>
    replace b with (n * k) by arith; rewrite <- (fold_rows op ltac:(monoids) n k g) by arith end;
  do 2 (apply fold_ext; intros); alike; prepared; alike.
Ltac by_blocks := match goal with |- fold ?op 0 ?n ?f = fold ?op 0 ?rows ?g => match rows with _ / ?k =>
    first [ rewrite (sum_blocks n k f) by arith | rewrite (fold_blocks op ltac:(monoids) n k f) by arith ];
    replace ((n + k - 1) / k) with rows by (f_equal; lia) end end;
  apply fold_ext; intros; apply fold_move; [lia | intros; decided; leaf].
Ltac folds := first
  [ solve [apply fold_swap; monoids] | solve [apply fold_pairs; monoids] | solve [apply sum_cut; arith]
  | solve [apply fold_cut; [monoids | arith]]
  | solve [rewrite fold_empty by arith; leaf] | solve [rewrite fold_one by arith; leaf]
  | solve [match goal with |- fold _ ?lo _ ?f = _ => rewrite (sum_cut (lo + 1)), (fold_one add lo) by arith; leaf end]
  | solve [apply fold_move; [arith | intros; alike]]
  | solve [rewrite fold_reverse by monoids; descend 1%nat]
  | solve [rewrite sum_const by arith; leaf]
  | solve [match goal with |- fold _ _ _ _ = fold _ ?a ?b _ =>
      rewrite (sum_within a b) by (intros; first [lia | decided; leaf]); descend 1%nat end]
  | solve [by_blocks]
  | solve [by_rows]
  | solve [one_term; decided; leaf] | solve [symmetry; one_term; decided; leaf] ].
Ltac shapes := lazymatch goal with |- @eq Z _ _ => solve [ lia | prepared; number ] end.
(* A rule: its shapes, and its values. *)
Ltac by_the_rule := intros; unfolded; repeat match goal with |- _ /\ _ => split end; intros; cbv beta iota in *;
  rewrite ?Z.add_0_l in *;
  first [ shapes | descend 2%nat | folds | solve [truths; decided; leaf] ].
End Make.
