(* Assembled results. A nest is run with a workspace: `Gather` makes the cells that were stored since the last one
   entries, and empties the workspace. The kernel returns the bounds of the rows, the columns and the values of the
   entries. Theorem `decompression`: these arrays represent the dense tensor that the nest computes.

   Row k of a cell is its index along dimension `dim`, and its column is the list of its other indices; a vector has one
   row, number 0. Flat columns are distinct for distinct lists by `addresses`. *)
Require Export Storing.

Module Make (S : SCALARS).
Module T := Storing.Make S.
Export T.

Local Notation length := List.length.
Definition entry_ : Type := list Z * scalar.
Record machine : Type := { cells_ : state; pending : list (list Z); entries : list entry_ }.

Definition row (dim : nat) (p : list Z) : Z := nth dim p 0.
Definition column (dim : nat) (p : list Z) : list Z := firstn dim p ++ skipn (Datatypes.S dim) p.
Fixpoint distinct (l : list (list Z)) : list (list Z) :=
  match l with [] => [] | p :: l => if existsb (same p) l then distinct l else p :: distinct l end.

Section Assembly.
Variables (u : Z) (dim rank : nat).

Fixpoint steps (n : nat) (f : nat -> machine -> machine) (m : machine) : machine :=
  match n with O => m | Datatypes.S k => f k (steps k f m) end.
(* The kernel: a store adds a cell to those of the current row; the end of a row appends them to the entries. *)
Fixpoint assemble (c : statement) (m : machine) : machine :=
  match c with
  | Skip | Look _ _ => m
  | Then a b => assemble b (assemble a m)
  | When b a => if b then assemble a m else m
  | For lo hi body => steps (Z.to_nat (hi - lo)) (fun k => assemble (body (lo + Z.of_nat k))) m
  | Assign v _ _ p _ | Accumulate _ v _ _ p _ =>
      {| cells_ := run c (cells_ m); pending := if v =? u then p :: pending m else pending m; entries := entries m |}
  | Storage _ _ _ _ _ => {| cells_ := run c (cells_ m); pending := pending m; entries := entries m |}
  | Gather v _ => if v =? u then
      {| cells_ := fun w p => if w =? u then zero else cells_ m w p; pending := [];
         entries := entries m ++ map (fun p => (p, cells_ m u p)) (distinct (pending m)) |} else m
  end.
Definition started (s : state) : machine := {| cells_ := s; pending := []; entries := [] |}.
Definition assembled (c : statement) (s : state) : list entry_ := entries (assemble c (started s)).

(* The arrays: the entries row by row, which is the order of rows that end one after another; bounds are counts. *)
Definition of_row (l : list entry_) (i : nat) : list entry_ := filter (fun e => row dim (fst e) =? Z.of_nat i) l.
Definition by_rows (l : list entry_) (n : nat) : list entry_ := flat_map (of_row l) (seq 0 n).
Definition pos (l : list entry_) (i : Z) : Z := Z.of_nat (length (by_rows l (Z.to_nat i))).
Definition decompressed (l : list entry_) (n : Z) (q : list Z) : scalar :=
  fold add (pos l (row dim q)) (pos l (row dim q + 1)) (fun p =>
    let e := nth (Z.to_nat p) (by_rows l (Z.to_nat n)) ([], zero) in
    if same (column dim (fst e)) (column dim q) then snd e else zero).

(* -- cells and arrays -------------------------------------------------------------------------------------------- *)
(* Each cell has at most one entry, which has its value; the others are zero. *)
Definition represents (l : list entry_) (f : tensor) : Prop :=
  NoDup (map fst l) /\ Forall (fun e => length (fst e) = rank /\ snd e = f (fst e)) l /\
  forall p, length p = rank -> In p (map fst l) \/ f p = zero.
Definition total (l : list scalar) : scalar := fold_right add zero l.

Lemma row_and_column p q : length p = length q -> row dim p = row dim q -> column dim p = column dim q -> p = q.
Proof.
  unfold row, column. revert p q. generalize dim. intros d.
  induction d as [|d IH]; intros [|x p] [|y q]; cbn; try easy; intros [= L] R C.
  - congruence.
  - injection C as -> C. f_equal. apply IH; assumption.
Qed.
Lemma fold_of_list (l1 l2 l3 : list entry_) g :
  fold add (Z.of_nat (length l1)) (Z.of_nat (length (l1 ++ l2))) (fun p => g (nth (Z.to_nat p) (l1 ++ l2 ++ l3) ([],
    zero)))
  = total (map g l2).
Proof.
  revert l1. induction l2 as [|e l2 IH]; intros l1.
  - rewrite app_nil_r. apply fold_empty. lia.
  - rewrite (sum_cut (Z.of_nat (length l1) + 1)) by (rewrite app_length; cbn [length]; lia).
    rewrite (fold_one add (Z.of_nat (length l1))) by lia. rewrite Nat2Z.id, app_nth2, Nat.sub_diag by lia.
    cbn [app nth]. change (total (map g (e :: l2))) with (add (g e) (total (map g l2))). f_equal.
    specialize (IH (l1 ++ [e])). rewrite <- !app_assoc in IH. cbn [app] in IH. rewrite <- IH. f_equal.
    rewrite app_length. cbn [length]. lia.
Qed.
Lemma seq_apart i n : (i < n)%nat -> seq 0 n = seq 0 i ++ i :: seq (Datatypes.S i) (n - Datatypes.S i).
Proof.
  intros H. replace n with (i + (1 + (n - Datatypes.S i)))%nat at 1 by lia. rewrite !seq_app. cbn [seq app].
  rewrite Nat.add_0_l, Nat.add_1_r. reflexivity.
Qed.
Lemma only_one l f q : NoDup (map fst l) -> Forall (fun e => length (fst e) = rank /\ snd e = f (fst e)) l ->
  length q = rank -> Forall (fun e => row dim (fst e) = row dim q) l ->
  total (map (fun e => if same (column dim (fst e)) (column dim q) then snd e else zero) l)
  = if in_dec (list_eq_dec Z.eq_dec) q (map fst l) then f q else zero.
Proof.
  intros D V Q R. induction l as [|[p x] l IH]; [reflexivity|]. cbn [map fst snd] in *.
  inversion D as [|? ? N D']. inversion V as [|? ? [P X] V']. inversion R as [|? ? E R']. subst. cbn [fst snd] in *.
  change (total (?a :: ?b)) with (add a (total b)). rewrite (IH D' V' R').
  destruct (same (column dim p) (column dim q)) eqn:C; cbv iota.
  - apply same_is in C. assert (p = q) by (apply row_and_column; congruence). subst q.
    destruct (in_dec _ p (map fst l)) as [|_]; [contradiction|].
    destruct (in_dec _ p (p :: map fst l)) as [_|O]; [rewrite X; ring | destruct O; left; reflexivity].
  - destruct (in_dec _ q (map fst l)) as [I|I], (in_dec _ q (p :: map fst l)) as [O|O]; try ring.
    + destruct O. right. exact I.
    + destruct O as [<-|]; [| contradiction]. enough (same (column dim p) (column dim p) = true) by congruence.
      apply same_is. reflexivity.
Qed.
Theorem decompression l f n q : represents l f -> length q = rank -> 0 <= row dim q < n -> decompressed l n q = f q.
Proof.
  intros (D & V & W) Q R. unfold decompressed, pos, by_rows.
  set (i := Z.to_nat (row dim q)). replace (Z.to_nat (row dim q + 1)) with (Datatypes.S i) by lia.
  rewrite (seq_apart i (Z.to_nat n)) by lia. rewrite seq_S, Nat.add_0_l, !flat_map_app. cbn [flat_map].
  rewrite app_nil_r.
  rewrite (fold_of_list _ (of_row l i) _ (fun e => if same (column dim (fst e)) (column dim q) then snd e else zero)).
  assert (F : forall g : entry_ -> bool, NoDup (map fst (filter g l))).
  { intros g. clear - D. induction l as [|e l IH]; [constructor|]. cbn in *. inversion D; subst.
    destruct (g e); cbn; [constructor; [| auto] | auto]. intros I. apply in_map_iff in I. destruct I as (e' & E & I).
    apply filter_In in I. apply H1. rewrite <- E. apply in_map. tauto. }
  rewrite (only_one _ f q); [| apply F | | exact Q |].
  - destruct (in_dec _ q (map fst (of_row l i))) as [|N]; [reflexivity|]. destruct (W q Q) as [I|E]; [| symmetry;
    exact E].
    exfalso. apply N. apply in_map_iff in I. destruct I as (e & <- & I). apply in_map. apply filter_In. split;
      [exact I|].
    apply Z.eqb_eq. lia.
  - apply Forall_forall. intros e I. apply filter_In in I. rewrite Forall_forall in V. apply V. tauto.
  - apply Forall_forall. intros e I. apply filter_In in I. destruct I as [_ I]. apply Z.eqb_eq in I. lia.
Qed.
(* Rows that end one after another are appended: the arrays are the entries as they come. *)
Fixpoint in_order (lo : Z) (l : list entry_) : Prop :=
  match l with [] => True | e :: l => lo <= row dim (fst e) /\ in_order (row dim (fst e)) l end.
Lemma in_order_less a b l : a <= b -> in_order b l -> in_order a l.
Proof. destruct l; cbn; [easy | intros ? [? ?]; split; [lia | assumption]]. Qed.
Lemma none_before lo l i : in_order lo l -> Z.of_nat i < lo -> of_row l i = [].
Proof.
  revert lo. induction l as [|e l IH]; intros lo O H; [reflexivity|]. destruct O as [R O]. cbn.
  destruct (Z.eqb_spec (row dim (fst e)) (Z.of_nat i)); [lia|]. apply (IH _ O). lia.
Qed.
Lemma first_row l i : in_order (Z.of_nat i) l -> exists l', l = of_row l i ++ l' /\ in_order (Z.of_nat i + 1) l'.
Proof.
  induction l as [|e l IH]; intros O; [exists []; easy|]. destruct O as [R O].
  destruct (Z.eq_dec (row dim (fst e)) (Z.of_nat i)) as [E|E].
  - rewrite E in O. destruct (IH O) as (l' & L & O'). exists l'. split; [| exact O']. cbn.
    rewrite (proj2 (Z.eqb_eq _ _) E). cbn. f_equal. exact L.
  - exists (e :: l). split; [rewrite (none_before (Z.of_nat i + 1)) by (cbn; split; [lia | exact O] || lia);
    reflexivity|].
    split; [lia | exact O].
Qed.
Lemma other_row l i j : i <> j -> of_row (of_row l i) j = [].
Proof.
  intros H. induction l as [|e l IH]; [reflexivity|]. cbn.
  destruct (Z.eqb_spec (row dim (fst e)) (Z.of_nat i)) as [E|]; [| exact IH].
  cbn. destruct (Z.eqb_spec (row dim (fst e)) (Z.of_nat j)); [lia | exact IH].
Qed.
Lemma rows_appended k : forall i l, in_order (Z.of_nat i) l -> Forall (fun e => row dim (fst e) < Z.of_nat (i + k)) l ->
  flat_map (of_row l) (seq i k) = l.
Proof.
  induction k as [|k IH]; intros i l O B.
  - destruct l as [|e l]; [reflexivity|]. inversion B; subst. destruct O. lia.
  - cbn [seq flat_map]. destruct (first_row l i O) as (l' & L & O').
    transitivity (of_row l i ++ l'); [| symmetry; exact L]. f_equal.
    transitivity (flat_map (of_row l') (seq (Datatypes.S i) k)).
    + rewrite !flat_map_concat_map. f_equal. apply map_ext_in. intros j J. apply in_seq in J.
      transitivity (of_row (of_row l i ++ l') j); [f_equal; exact L|].
      transitivity (of_row (of_row l i) j ++ of_row l' j); [apply filter_app | rewrite other_row by lia; reflexivity].
    + apply IH.
      * replace (Z.of_nat (Datatypes.S i)) with (Z.of_nat i + 1) by lia. exact O'.
      * rewrite L in B. apply Forall_app in B. destruct B as [_ B].
        replace (Datatypes.S i + k)%nat with (i + Datatypes.S k)%nat by lia. exact B.
Qed.
Theorem appended l n : in_order 0 l -> Forall (fun e => row dim (fst e) < n) l -> by_rows l (Z.to_nat n) = l.
Proof.
  intros O B. destruct (Z_le_gt_dec n 0) as [N|N].
  - destruct l as [|e l]; [replace (Z.to_nat n) with 0%nat by lia; reflexivity|]. inversion B; subst. destruct O. lia.
  - apply rows_appended; [exact O|]. replace (Z.of_nat (0 + Z.to_nat n)) with n by lia. exact B.
Qed.

(* -- statements that store --------------------------------------------------------------------------------------- *)
Fixpoint unread (x : value) : Prop :=
  match x with
  | Number _ | Element _ _ _ _ => True
  | Load v _ _ _ => v <> u
  | Of_one _ x => unread x
  | Of_two _ x y | Choose _ x y => unread x /\ unread y
  end.
(* All cells that are stored are in rows with this property, no row ends, and nothing is loaded from the result. *)
Fixpoint stores_in (R : Z -> Prop) (c : statement) : Prop :=
  match c with
  | Skip | Look _ _ => True
  | Then a b => stores_in R a /\ stores_in R b
  | When b a => b = true -> stores_in R a
  | For lo hi body => forall i, lo <= i < hi -> stores_in R (body i)
  | Assign v _ _ p x | Accumulate _ v _ _ p x => unread x /\ (v <> u \/ length p = rank /\ R (row dim p))
  | Storage v _ _ _ _ | Gather v _ => v <> u
  end.
Fixpoint touches (c : statement) (p : list Z) : Prop :=
  match c with
  | Skip | Look _ _ | Storage _ _ _ _ _ | Gather _ _ => False
  | Then a b => touches a p \/ touches b p
  | When b a => b = true /\ touches a p
  | For lo hi body => exists i, lo <= i < hi /\ touches (body i) p
  | Assign v _ _ q _ | Accumulate _ v _ _ q _ => v = u /\ q = p
  end.
Lemma stored_in R c p : stores_in R c -> touches c p -> length p = rank /\ R (row dim p).
Proof.
  induction c as [|a IHa b IHb|b a IH|lo hi body IH| | | | |]; cbn; try tauto.
  - intros H (i & B & T). exact (IH i (H i B) T).
  - intros [_ H] [-> <-]. destruct H; [contradiction | assumption].
  - intros [_ H] [-> <-]. destruct H; [contradiction | assumption].
Qed.
Lemma no_step lo hi body m : hi <= lo -> assemble (For lo hi body) m = m.
Proof. intros. cbn. replace (Z.to_nat (hi - lo)) with O by lia. reflexivity. Qed.
Lemma one_step lo hi body m : lo < hi ->
  assemble (For lo hi body) m = assemble (body (hi - 1)) (assemble (For lo (hi - 1) body) m).
Proof.
  intros. cbn. replace (Z.to_nat (hi - lo)) with (Datatypes.S (Z.to_nat (hi - 1 - lo))) by lia. cbn [steps].
  do 2 f_equal. lia.
Qed.
Lemma one_iteration lo hi body s : lo < hi ->
  run (For lo hi body) s = run (body (hi - 1)) (run (For lo (hi - 1) body) s).
Proof.
  intros. cbn. replace (Z.to_nat (hi - lo)) with (Datatypes.S (Z.to_nat (hi - 1 - lo))) by lia. cbn [times].
  do 2 f_equal. lia.
Qed.
(* Induction on the number of iterations. *)
Ltac iterations hi lo := pattern hi; apply (upwards _ lo); clear hi; intros hi ?;
  [ rewrite ?(no_step lo hi), ?(no_iteration lo hi) by lia | intros ?IH;
    rewrite ?(one_step lo hi), ?(one_iteration lo hi) by lia ].

Lemma body_cells R c : stores_in R c -> forall m, cells_ (assemble c m) = run c (cells_ m) /\
  entries (assemble c m) = entries m.
Proof.
  induction c as [|a IHa b IHb|b a IH|lo hi body IH|v ? ? q x|g v ? ? q x|v ? ? mem holds| |v r]; intros H m;
    try (split; reflexivity).
  - destruct H as [A B]. cbn. destruct (IHb B (assemble a m)) as [-> ->]. destruct (IHa A m) as [-> ->]. easy.
  - cbn in *. destruct b; [auto | easy].
  - cbn [stores_in] in H. revert H. iterations hi lo; [easy|]. intros B.
    destruct (IH (hi - 1) (B (hi - 1) ltac:(lia)) (assemble (For lo (hi - 1) body) m)) as [-> ->].
    destruct (IH0 ltac:(intros; apply B; lia)) as [-> ->]. easy.
  - cbn in *. destruct (Z.eqb_spec v u); easy.
Qed.
Lemma body_pending R c : stores_in R c -> forall m p, In p (pending (assemble c m)) <-> touches c p \/ In p (pending m).
Proof.
  induction c as [|a IHa b IHb|b a IH|lo hi body IH|v ? ? q x|g v ? ? q x|v ? ? mem holds| |v r]; intros H m p.
  - cbn. tauto.
  - destruct H as [A B]. cbn. rewrite (IHb B), (IHa A). tauto.
  - cbn in *. destruct b; [rewrite (IH (H eq_refl)); tauto | intuition discriminate].
  - cbn [stores_in touches] in *. revert H. iterations hi lo.
    + intros _. split; [tauto | intros [(i & ? & _)|]; [lia | assumption]].
    + intros B. rewrite (IH (hi - 1) (B (hi - 1) ltac:(lia))), (IH0 ltac:(intros; apply B; lia)). split.
      * intros [T|[(i & I & T)|T]]; [left; exists (hi - 1); split; [lia | exact T] | left; exists i; split; [lia |
        exact T] | auto].
      * intros [(i & I & T)|T]; [| auto]. destruct (Z.eq_dec i (hi - 1)) as [->|]; [auto|].
        right. left. exists i. split; [lia | exact T].
  - cbn. destruct (Z.eqb_spec v u); cbn; intuition.
  - cbn. destruct (Z.eqb_spec v u); cbn; intuition.
  - cbn. tauto.
  - cbn. tauto.
  - cbn in *. destruct (Z.eqb_spec v u); [contradiction | tauto].
Qed.
Lemma untouched R c : stores_in R c -> forall s p, ~ touches c p -> run c s u p = s u p.
Proof.
  induction c as [|a IHa b IHb|b a IH|lo hi body IH|v ? ? q x|g v ? ? q x|v ? ? mem holds| |v r]; intros H s p N;
    try reflexivity.
  - destruct H as [A B]. cbn in *. rewrite (IHb B), (IHa A) by tauto. reflexivity.
  - cbn in *. destruct b; [apply IH; tauto | reflexivity].
  - cbn [stores_in touches] in *. revert H N. iterations hi lo; [easy|]. intros B N.
    rewrite (IH (hi - 1) (B (hi - 1) ltac:(lia))) by (intros T; apply N; exists (hi - 1); split; [lia | exact T]).
    apply IH0; [intros; apply B; lia | intros (i & I & T); apply N; exists i; split; [lia | exact T]].
  - cbn in *. unfold put. destruct (Z.eqb_spec u v), (same p q) eqn:E; try reflexivity. apply same_is in E. subst.
  tauto.
  - cbn in *. unfold put. destruct (Z.eqb_spec u v), (same p q) eqn:E; try reflexivity. apply same_is in E. subst.
  tauto.
  - cbn in *. destruct (Z.eqb_spec u v); [congruence | reflexivity].
Qed.
(* States that agree on other storage, and on some cells of the result. *)
Definition alike (P : list Z -> Prop) (s t : state) : Prop :=
  (forall v p, v <> u -> s v p = t v p) /\ forall p, P p -> s u p = t u p.
Lemma alike_value P s t x : alike P s t -> unread x -> eval s x = eval t x.
Proof.
  intros [A _]. induction x; cbn; intros H; try reflexivity; try lazymatch type of H with _ /\ _ => destruct H end;
    try (f_equal; auto). destruct b; auto.
Qed.
Lemma alike_after R P c : stores_in R c -> forall s t, alike P s t -> alike P (run c s) (run c t).
Proof.
  induction c as [|a IHa b IHb|b a IH|lo hi body IH|v ? ? q x|g v ? ? q x|v ? ? mem holds| |v r]; intros H s t A;
    try exact A.
  - destruct H. cbn. auto.
  - cbn in *. destruct b; auto.
  - cbn [stores_in] in H. revert H. iterations hi lo; [easy|]. intros B. apply IH; [apply B; lia|].
    apply IH0. intros; apply B; lia.
  - cbn in *. rewrite (alike_value P s t x A) by tauto. destruct A as [A B]. unfold put. split; intros.
    + rewrite A by assumption. reflexivity.
    + rewrite B by assumption. reflexivity.
  - cbn in *. rewrite (alike_value P s t x A) by tauto. destruct A as [A B]. unfold put. split.
    + intros w p W. destruct (Z.eqb_spec w v) as [->|]; cbn [andb]; [rewrite (A v q W), (A v p W); reflexivity |
      apply A; exact W].
    + intros p C. rewrite (B p C). destruct (Z.eqb_spec u v); [subst | reflexivity].
      destruct (same p q) eqn:E; [apply same_is in E; subst; rewrite (B q C); reflexivity | reflexivity].
  - cbn in *. destruct A as [A B]. split; intros; [rewrite A by assumption; reflexivity | rewrite B by assumption;
    reflexivity].
Qed.
Lemma distinct_in l p : In p (distinct l) <-> In p l.
Proof.
  induction l as [|q l IH]; [easy|]. cbn. destruct (existsb (same q) l) eqn:E; cbn; rewrite IH; [| reflexivity].
  apply existsb_exists in E. destruct E as (r & I & S). apply same_is in S. subst. intuition congruence.
Qed.
Lemma distinct_once l : NoDup (distinct l).
Proof.
  induction l as [|q l IH]; [constructor|]. cbn. destruct (existsb (same q) l) eqn:E; [exact IH|]. constructor;
    [| exact IH].
  rewrite distinct_in. intros I. enough (existsb (same q) l = true) by congruence. apply existsb_exists. exists q.
  split; [exact I | apply same_is; reflexivity].
Qed.

(* -- rows -------------------------------------------------------------------------------------------------------- *)
(* A statement ends the rows from lo to hi, of which it stores all cells: they become entries with their values. *)
Definition ends (lo hi : Z) (c : statement) : Prop := forall m t,
  pending m = [] -> (forall p, cells_ m u p = zero) -> (forall v p, v <> u -> cells_ m v p = t v p) ->
  (forall p, lo <= row dim p -> t u p = zero) -> exists l,
  (pending (assemble c m) = [] /\ (forall p, cells_ (assemble c m) u p = zero) /\
   (forall v p, v <> u -> cells_ (assemble c m) v p = run c t v p) /\ entries (assemble c m) = entries m ++ l) /\
  in_order lo l /\ NoDup (map fst l) /\
  (forall e, In e l -> length (fst e) = rank /\ row dim (fst e) < hi /\ snd e = run c t u (fst e)) /\
  (forall p, ~ In p (map fst l) -> run c t u p = t u p).

Lemma ends_alike lo hi c d : (forall m, assemble c m = assemble d m) -> (forall t, run c t = run d t) ->
  ends lo hi c -> ends lo hi d.
Proof. intros A B E m t. rewrite <- A, <- B. apply E. Qed.
Lemma ends_assoc lo hi a b c : ends lo hi (Then (Then a b) c) -> ends lo hi (Then a (Then b c)).
Proof. apply ends_alike; reflexivity. Qed.
Lemma ends_wider a b lo hi c : lo <= a -> b <= hi -> ends a b c -> ends lo hi c.
Proof.
  intros L H E m t M C A Z. destruct (E m t M C A ltac:(intros; apply Z; lia)) as (l & X & O & D & V & U).
  exists l. repeat split; try apply X; try assumption; try (apply V; assumption).
  - eapply in_order_less; eassumption.
  - destruct (V e ltac:(assumption)) as (_ & ? & _). lia.
Qed.
Lemma in_order_from lo l e : in_order lo l -> In e l -> lo <= row dim (fst e).
Proof.
  revert lo. induction l as [|x l IH]; intros lo O I; [easy|]. destruct O as [R O]. destruct I as [->|I]; [exact R|].
  specialize (IH _ O I). lia.
Qed.
Lemma in_order_app lo mid l k : in_order lo l -> (forall e, In e l -> row dim (fst e) < mid) -> in_order mid k ->
  lo <= mid ->
  in_order lo (l ++ k).
Proof.
  revert lo. induction l as [|e l IH]; intros lo L B K M; cbn; [eapply in_order_less; eassumption|].
  destruct L as [R L].
  split; [exact R|]. apply IH; try assumption; [intros; apply B; right; assumption |
    specialize (B e (or_introl eq_refl)); lia].
Qed.
Lemma ends_then lo mid hi a b : lo <= mid <= hi -> ends lo mid a -> ends mid hi b -> ends lo hi (Then a b).
Proof.
  intros B A E m t M C O Z. destruct (A m t M C O Z) as (l & (M1 & C1 & O1 & E1) & L1 & D1 & V1 & U1).
  assert (Z1 : forall p, mid <= row dim p -> run a t u p = zero).
  { intros p P. rewrite U1; [apply Z; lia|]. intros I. apply in_map_iff in I. destruct I as (e & <- & I).
    destruct (V1 e I) as (_ & ? & _). lia. }
  destruct (E (assemble a m) (run a t) M1 C1 O1 Z1) as (k & (M2 & C2 & O2 & E2) & L2 & D2 & V2 & U2).
  exists (l ++ k). cbn [assemble run].
  assert (Apart : forall e p, In e l -> In p (map fst k) -> fst e = p -> False).
  { intros e p I J X. destruct (V1 e I) as (_ & ? & _). apply in_map_iff in J. destruct J as (f & <- & J).
    pose proof (in_order_from _ _ _ L2 J). rewrite X in *. lia. }
  repeat split; try assumption.
  - rewrite E2, E1, app_assoc. reflexivity.
  - eapply in_order_app; try eassumption; [| lia]. intros e I. destruct (V1 e I) as (_ & ? & _). assumption.
  - rewrite map_app. clear - D1 D2 Apart. induction l as [|e l IH]; [exact D2|]. cbn in *. inversion D1; subst.
  constructor.
    + rewrite in_app_iff. intros [|]; [contradiction | eapply Apart; eauto].
    + apply IH; [assumption | intros; eapply Apart; eauto].
  - apply in_app_iff in H. destruct H as [I|I]; [destruct (V1 e I) | destruct (V2 e I)]; assumption.
  - apply in_app_iff in H. destruct H as [I|I]; [destruct (V1 e I) as (_ & ? & _); lia |
    destruct (V2 e I) as (_ & ? & _); assumption].
  - apply in_app_iff in H. destruct H as [I|I]; [| apply V2; exact I]. destruct (V1 e I) as (_ & _ & ->). symmetry.
  apply U2.
    intros J. exact (Apart e _ I J eq_refl).
  - intros p N. rewrite map_app, in_app_iff in N. rewrite U2, U1 by tauto. reflexivity.
Qed.
Lemma ends_nothing lo hi c : stores_in (fun _ => False) c -> ends lo hi c.
Proof.
  intros H m t M C O Z. destruct (body_cells _ c H m) as [Cells E]. exists [].
  assert (U : forall s p, run c s u p = s u p).
  { intros s p. apply (untouched _ _ H). intros T. destruct (stored_in _ _ _ H T) as [_ []]. }
  repeat split; try easy.
  - destruct (pending (assemble c m)) as [|p l] eqn:P; [reflexivity|]. exfalso.
    destruct (proj1 (body_pending _ c H m p)) as [T|T]; [rewrite P; left; reflexivity | | rewrite M in T; exact T].
    destruct (stored_in _ _ _ H T) as [_ []].
  - intros p. rewrite Cells, U. apply C.
  - intros v p V. rewrite Cells. apply (alike_after _ (fun _ => False) c H); [split; [exact O | easy] | exact V].
  - rewrite E, app_nil_r. reflexivity.
  - constructor.
Qed.
Lemma ends_when lo hi b a : (b = true -> ends lo hi a) -> ends lo hi (When b a).
Proof.
  intros H. destruct b; [eapply ends_alike; [| | exact (H eq_refl)]; reflexivity|]. apply ends_nothing. cbn.
  discriminate.
Qed.
Lemma ends_for (f : Z -> Z) lo hi body : lo <= hi ->
  (forall i, lo <= i < hi -> f i <= f (i + 1) /\ ends (f i) (f (i + 1)) (body i)) ->
    ends (f lo) (f hi) (For lo hi body).
Proof.
  enough (lo <= hi -> (forall i, lo <= i < hi -> f i <= f (i + 1) /\ ends (f i) (f (i + 1)) (body i)) ->
    f lo <= f hi /\ ends (f lo) (f hi) (For lo hi body)) by (intros; apply H; assumption).
  pattern hi. apply (upwards _ lo); clear hi; intros hi ?.
  - intros ? _. replace hi with lo by lia. split; [lia|].
    apply (ends_alike _ _ Skip); [intros; rewrite no_step by lia; reflexivity | intros; rewrite no_iteration by lia;
      reflexivity|].
    apply ends_nothing. exact I.
  - intros IH _ B. destruct (IH ltac:(lia) ltac:(intros; apply B; lia)) as [L E].
    destruct (B (hi - 1) ltac:(lia)) as [L' E']. replace (hi - 1 + 1) with hi in * by lia. split; [lia|].
    apply (ends_alike _ _ (Then (For lo (hi - 1) body) (body (hi - 1)))).
    + intros. rewrite (one_step lo hi) by lia. reflexivity.
    + intros. rewrite (one_iteration lo hi) by lia. reflexivity.
    + eapply ends_then; [| exact E | exact E']. lia.
Qed.
(* What is gathered after statements that store to rows with a property. *)
Lemma gathered R c m t P row_ : stores_in R c -> pending m = [] -> alike P (cells_ m) t ->
  (forall p, R (row dim p) -> P p) ->
  exists l, assemble (Then c (Gather u row_)) m
    = {| cells_ := fun w p => if w =? u then zero else run c (cells_ m) w p; pending := [];
      entries := entries m ++ l |} /\
  NoDup (map fst l) /\ (forall e, In e l -> length (fst e) = rank /\ R (row dim (fst e)) /\
    snd e = run c t u (fst e)) /\
  (forall p, ~ In p (map fst l) -> run c t u p = t u p).
Proof.
  intros H M A C. destruct (body_cells _ c H m) as [Cells E]. cbn. rewrite Z.eqb_refl, Cells, E.
  eexists. split; [reflexivity|]. rewrite map_map. cbn [fst]. rewrite map_id. split; [apply distinct_once|]. split.
  - intros e I. apply in_map_iff in I. destruct I as (p & <- & I). rewrite distinct_in, (body_pending _ c H), M in I.
    destruct I as [T|[]]. destruct (stored_in _ _ _ H T) as [L Q]. cbn. repeat split; try assumption.
    apply (alike_after _ _ c H _ _ A). apply C, Q.
  - intros p N. apply (untouched _ c H). intros T. apply N. rewrite distinct_in, (body_pending _ c H). left. exact T.
Qed.
Lemma ends_row i lo hi c : lo <= i < hi -> stores_in (eq i) c -> ends lo hi (Then c (Gather u (Some i))).
Proof.
  intros B H m t M C O Z.
  destruct (gathered (eq i) c m t (fun p => lo <= row dim p) (Some i) H M) as (l & E & D & V & U).
  - split; [exact O|]. intros p P. rewrite C, Z by exact P. reflexivity.
  - intros p <-. lia.
  - exists l. rewrite E. cbn [pending cells_ entries]. repeat split; try assumption.
    + intros p. rewrite Z.eqb_refl. reflexivity.
    + intros v p N. destruct (Z.eqb_spec v u); [contradiction|]. cbn [run].
      apply (alike_after _ (fun _ => False) c H); [split; [exact O | easy] | exact N].
    + clear - B V. assert (G : forall e, In e l -> row dim (fst e) = i) by (intros e I;
      destruct (V e I) as (_ & ? & _); easy).
      clear V. revert lo B. induction l as [|e l IH]; intros lo B; [exact I|]. cbn. rewrite (G e) by (left;
        reflexivity).
      split; [lia|]. apply IH; [intros; apply G; right; assumption | lia].
    + apply V. assumption.
    + destruct (V e ltac:(assumption)) as (_ & <- & _). lia.
    + apply V. assumption.
Qed.
(* -- nests that begin with an empty result ----------------------------------------------------------------------- *)
Definition emptied (sh : list Z) (k : Z) (mem : memory) (c : statement) : statement :=
  Then (Storage u sh k mem (fun _ => zero)) c.
Lemma represented c s l : (forall p, s u p = zero) -> NoDup (map fst l) ->
  (forall e, In e l -> length (fst e) = rank /\ snd e = run c s u (fst e)) ->
  (forall p, ~ In p (map fst l) -> run c s u p = s u p) -> represents l (run c s u).
Proof.
  intros Z D V U. repeat split; [exact D | apply Forall_forall; exact V|]. intros p _.
  destruct (in_dec (list_eq_dec Z.eq_dec) p (map fst l)) as [I|N]; [left; exact I | right]. rewrite U by exact N.
  apply Z.
Qed.
(* Rows that end one after another: the arrays are the entries in the order in which they are appended. *)
Theorem rows_end sh k mem c n s : ends 0 n c ->
  represents (assembled (emptied sh k mem c) s) (run (emptied sh k mem c) s u) /\
  by_rows (assembled (emptied sh k mem c) s) (Z.to_nat n) = assembled (emptied sh k mem c) s.
Proof.
  intros E. set (t := run (Storage u sh k mem (fun _ => zero)) s).
  assert (Z : forall p, t u p = zero) by (intros p; unfold t; cbn; rewrite Z.eqb_refl; reflexivity).
  destruct (E (started t) t eq_refl Z ltac:(reflexivity) ltac:(intros;
    apply Z)) as (l & (_ & _ & _ & L) & O & D & V & U).
  replace (assembled (emptied sh k mem c) s) with l by (symmetry; exact L). split.
  - apply (represented c t); [exact Z | exact D | intros e I; split; apply V; exact I | exact U].
  - apply appended; [exact O|]. apply Forall_forall. intros e I. apply V. exact I.
Qed.
(* Rows that are counted: they all end after the last store. *)
Fixpoint ends_last (c : statement) : Prop :=
  match c with Then a b => stores_in (fun _ => True) a /\ ends_last b | Gather v None => v = u | _ => False end.
Theorem all_end sh k mem c s : ends_last c ->
  represents (assembled (emptied sh k mem c) s) (run (emptied sh k mem c) s u).
Proof.
  intros H. assert (X : exists d, stores_in (fun _ => True) d /\ (forall t, run c t = run d t) /\
    forall m, assemble c m = assemble (Then d (Gather u None)) m).
  { clear sh k mem s. induction c as [|a _ b IH|b a IH|lo hi body IH|v ? ? q x|g v ? ? q x|v ? ? mem holds| |v [r|]];
    try easy.
    - destruct H as [A B]. destruct (IH B) as (d & D & R & M). exists (Then a d). cbn. repeat split; auto.
      intros m. rewrite M. reflexivity.
    - cbn in H. subst. exists Skip. repeat split. }
  destruct X as (d & D & R & M). set (t := run (Storage u sh k mem (fun _ => zero)) s).
  assert (Z : forall p, t u p = zero) by (intros p; unfold t; cbn; rewrite Z.eqb_refl; reflexivity).
  destruct (gathered _ d (started t) t (fun _ => True) None D eq_refl ltac:(easy) ltac:(easy)) as (l & E & N & V & U).
  replace (assembled (emptied sh k mem c) s) with l.
  - change (run (emptied sh k mem c) s) with (run c t). rewrite R. apply (represented d t); [exact Z | exact N | |
    exact U].
    intros e I. split; apply V; exact I.
  - change (assembled (emptied sh k mem c) s) with (entries (assemble c (started t))). rewrite M, E. reflexivity.
Qed.
End Assembly.

Ltac stored := cbn [stores_in ends_last unread]; repeat lazymatch goal with
  | |- True => exact I
  | |- _ /\ _ => split
  | |- _ <> _ => discriminate
  | |- @eq nat _ _ => reflexivity
  | |- @eq bool _ _ -> _ => intros ?
  | |- forall _ : Z, _ => intro
  | |- _ <= _ < _ -> _ => intros ?
  | |- _ \/ _ => first [left; discriminate | right] end; unfold row; cbn [nth]; known.
End Make.
