(* What a nest leaves in its storage. Whatever is stored to a cell is what a tensor is there, so that it does not matter
   which iteration was the last; then it is enough that some iteration stores the cell. What is added up in a cell is the
   sum of what each iteration adds. What a nest loads is known of storage that has been filled before: facts. *)
Require Export Nests.

(* The one lemma of flat addresses: they lie within the storage, and are distinct where the indices are. *)
Lemma size_natural shape p : within shape p -> 0 <= size shape.
Proof.
  revert p. induction shape as [|n shape IH]; intros [|i p]; cbn; try lia. intros [? H]. apply IH in H.
  unfold size in *. nia.
Qed.
Lemma flat_bounds shape : forall at_ p, within shape p ->
  at_ * size shape <= flat at_ shape p < at_ * size shape + size shape.
Proof.
  induction shape as [|n shape IH]; intros at_ [|i p]; cbn -[Z.mul]; try lia. intros [? H].
  pose proof (IH (at_ * n + i) p H). pose proof (size_natural _ _ H). unfold size in *. cbn in *. nia.
Qed.
Lemma flat_apart shape : forall a b p q, within shape p -> within shape q ->
  flat a shape p = flat b shape q -> a = b /\ p = q.
Proof.
  induction shape as [|n shape IH]; intros a b [|i p] [|j q]; cbn; try easy. intros [? P] [? Q] E.
  apply IH in E; [| assumption..]. destruct E as [E ->]. assert (a = b) by nia. subst. split; [easy | f_equal; lia].
Qed.
Theorem addresses shape p q : within shape p -> within shape q ->
  0 <= flat 0 shape p < size shape /\ (flat 0 shape p = flat 0 shape q -> p = q).
Proof. intros P Q. split; [apply (flat_bounds shape 0 p P) | apply flat_apart; assumption]. Qed.

Lemma same_is p q : same p q = true <-> p = q.
Proof.
  revert q. induction p as [|i p IH]; intros [|j q]; cbn; try easy. rewrite andb_true_iff, IH, Z.eqb_eq.
  split; [intros [-> ->]; reflexivity | intros [= -> ->]; auto].
Qed.

Module Make (S : SCALARS).
Module N := Nests.Make S.
Export N.

(* -- what is touched --------------------------------------------------------------------------------------------- *)
Fixpoint spares (u : Z) (c : statement) : Prop :=
  match c with
  | Skip | Look _ _ => True
  | Then a b => spares u a /\ spares u b
  | When _ a => spares u a
  | For _ _ body => forall i, spares u (body i)
  | Assign v _ _ _ _ | Accumulate _ v _ _ _ _ | Storage v _ _ _ _ => u <> v
  end.
(* What is assigned. *)
Fixpoint stores (c : statement) (u : Z) (p : list Z) : Prop :=
  match c with
  | Then a b => stores a u p \/ stores b u p
  | When b a => b = true /\ stores a u p
  | For lo hi body => exists i, lo <= i < hi /\ stores (body i) u p
  | Assign v _ _ q _ => u = v /\ p = q
  | _ => False
  end.
Lemma through (P : Z -> state -> Prop) lo hi body s : P lo s ->
  (forall i t, lo <= i < hi -> P i t -> P (i + 1) (run (body i) t)) -> lo <= hi -> P hi (run (For lo hi body) s).
Proof.
  intros Start Next Ends. cbn.
  assert (H : forall n, (n <= Z.to_nat (hi - lo))%nat ->
    P (lo + Z.of_nat n) (times n (fun k => run (body (lo + Z.of_nat k))) s)).
  { induction n as [|n IH]; intros; cbn [times]; [rewrite Z.add_0_r; exact Start|].
    replace (lo + Z.of_nat (Datatypes.S n)) with (lo + Z.of_nat n + 1) by lia.
    apply (Next (lo + Z.of_nat n)); [lia | apply IH; lia]. }
  specialize (H (Z.to_nat (hi - lo)) (le_n _)). replace (lo + Z.of_nat (Z.to_nat (hi - lo))) with hi in H by lia.
  exact H.
Qed.
Lemma no_iteration lo hi body s : hi <= lo -> run (For lo hi body) s = s.
Proof. intros. cbn. replace (Z.to_nat (hi - lo)) with O by lia. reflexivity. Qed.
Lemma put_elsewhere u p x s v q : v <> u -> put u p x s v q = s v q.
Proof. intros. unfold put. destruct (Z.eqb_spec v u); [contradiction | reflexivity]. Qed.
Lemma put_here u p x s q : put u p x s u q = if same q p then x else s u q.
Proof. unfold put. rewrite Z.eqb_refl. reflexivity. Qed.
Lemma spared u c : forall s p, spares u c -> run c s u p = s u p.
Proof.
  induction c as [|a IHa b IHb|b a IH|lo hi body IH|v ? ? q x|g v ? ? q x|v ? ? ? holds|]; cbn [spares]; intros s p H.
  - reflexivity.
  - cbn. rewrite IHb, IHa by easy. reflexivity.
  - cbn. destruct b; auto.
  - destruct (Z_le_gt_dec hi lo); [rewrite no_iteration by lia; reflexivity|].
    apply (through (fun _ t => t u p = s u p)); [reflexivity | intros ? ? ? E; rewrite IH by easy; exact E | lia].
  - apply put_elsewhere. easy.
  - apply put_elsewhere. easy.
  - cbn. destruct (Z.eqb_spec u v); [contradiction | reflexivity].
  - reflexivity.
Qed.
Lemma not_stored u c p : spares u c -> ~ stores c u p.
Proof.
  induction c as [|a IHa b IHb|b a IH|lo hi body IH| | | |]; cbn; try tauto.
  intros H (i & _ & ?). exact (IH i (H i) ltac:(assumption)).
Qed.

(* -- what is known ----------------------------------------------------------------------------------------------- *)
Definition fact : Type := Z * list Z * tensor.
Fixpoint knows (k : list fact) (s : state) : Prop :=
  match k with [] => True | (u, shape, t) :: k => (forall p, within shape p -> s u p = t p) /\ knows k s end.
Fixpoint held (k : list fact) : state :=
  fun u p => match k with [] => zero | (v, _, t) :: k => if u =? v then t p else held k u p end.
Fixpoint shape_of (k : list fact) (u : Z) : list (list Z) :=
  match k with [] => [] | (v, shape, _) :: k => if u =? v then [shape] else shape_of k u end.
Fixpoint keeps (k : list fact) (c : statement) : Prop :=
  match k with [] => True | (u, _, _) :: k => spares u c /\ keeps k c end.
(* What is loaded is known. *)
Fixpoint ready (k : list fact) (x : value) : Prop :=
  match x with
  | Number _ | Element _ _ _ _ => True
  | Load u shape _ p => shape_of k u = [shape] /\ within shape p
  | Of_one _ x => ready k x
  | Of_two _ x y => ready k x /\ ready k y
  | Choose b x y => (b = true -> ready k x) /\ (b = false -> ready k y)
  end.
Lemma known_there k s u shape p : knows k s -> shape_of k u = [shape] -> within shape p -> s u p = held k u p.
Proof.
  induction k as [|((v, sh), t) k IH]; cbn; [easy|]. intros [H K]. destruct (Z.eqb_spec u v); [subst | auto].
  intros [= ->]. auto.
Qed.
Lemma known_value k s x : knows k s -> ready k x -> eval s x = eval (held k) x.
Proof.
  intros K. induction x; cbn; intros R; try reflexivity; try (destruct R); try (f_equal; auto).
  - eapply known_there; eauto.
  - destruct b; auto.
Qed.
Lemma kept k c s : keeps k c -> knows k s -> knows k (run c s).
Proof.
  induction k as [|((u, sh), t) k IH]; cbn; [easy|]. intros [? ?] [K ?]. split; [| auto].
  intros. rewrite spared by assumption. auto.
Qed.
Lemma keeps_body k lo hi body i : keeps k (For lo hi body) -> keeps k (body i).
Proof. induction k as [|((u, sh), t) k IH]; cbn; [easy|]. intros [H ?]. auto. Qed.

(* -- filling, storing, adding ------------------------------------------------------------------------------------ *)
Definition fills k c u shape (t : tensor) : Prop :=
  forall s, knows k s -> forall p, within shape p -> run c s u p = t p.
Definition writes k c u (t : tensor) : Prop :=
  forall s, knows k s -> forall p, run c s u p = t p \/ ~ stores c u p /\ run c s u p = s u p.
Definition adds k c u (t : tensor) : Prop :=
  forall s, knows k s -> forall p, run c s u p = add (s u p) (t p).

Lemma writes_nothing k c u t : spares u c -> writes k c u t.
Proof. intros H s _ p. right. split; [apply not_stored | apply spared]; exact H. Qed.
Lemma writes_assign k u sh ex q x t : ready k x -> eval (held k) x = t q -> writes k (Assign u sh ex q x) u t.
Proof.
  intros R E s K p. cbn [run stores]. rewrite put_here. destruct (same p q) eqn:Q.
  - apply same_is in Q. subst. left. rewrite <- E. apply known_value; assumption.
  - right. split; [| reflexivity]. intros [_ ->]. enough (same q q = true) by congruence. apply same_is. reflexivity.
Qed.
Lemma writes_then k a b u t : keeps k a -> writes k a u t -> writes k b u t -> writes k (Then a b) u t.
Proof.
  intros H A B s K p. cbn. specialize (A s K p). specialize (B (run a s) (kept _ _ _ H K) p). intuition congruence.
Qed.
Lemma writes_when k b a u t : (b = true -> writes k a u t) -> writes k (When b a) u t.
Proof.
  intros H s K p. cbn. destruct b; [destruct (H eq_refl s K p) as [|[]]; intuition | right; intuition; discriminate].
Qed.
Lemma writes_for k lo hi body u t : keeps k (For lo hi body) ->
  (forall i, lo <= i < hi -> writes k (body i) u t) -> writes k (For lo hi body) u t.
Proof.
  intros Kept H s K p. destruct (Z_le_gt_dec hi lo).
  { rewrite no_iteration by lia. right. split; [| reflexivity]. intros (? & ? & _). lia. }
  enough (knows k (run (For lo hi body) s) /\ (run (For lo hi body) s u p = t p \/
    ~ (exists i, lo <= i < hi /\ stores (body i) u p) /\ run (For lo hi body) s u p = s u p)) by easy.
  apply (through (fun n r => knows k r /\ (r u p = t p \/
    ~ (exists i, lo <= i < n /\ stores (body i) u p) /\ r u p = s u p))); [| | lia].
  - split; [exact K | right; split; [intros (? & ? & _); lia | reflexivity]].
  - intros i r ? [R E]. split; [apply kept; [eapply keeps_body; exact Kept | exact R]|].
    destruct (H i ltac:(lia) r R p) as [W | [W ->]]; [left; exact W|]. destruct E as [E | [E ->]]; [left; exact E|].
    right. split; [| reflexivity]. intros (j & ? & ?). destruct (Z.eq_dec j i) as [->|]; [contradiction|].
    apply E. exists j. split; [lia | assumption].
Qed.
Lemma writes_local k a b v shape tv u t : keeps k a -> spares u a -> fills k a v shape tv ->
  writes ((v, shape, tv) :: k) b u t -> writes k (Then a b) u t.
Proof.
  intros H U F W s K p. cbn. rewrite <- (spared u a s p U).
  destruct (W (run a s) (conj (F s K) (kept _ _ _ H K)) p) as [|[]]; [left; assumption | right].
  split; [| assumption]. intros [N | N]; [exact (not_stored u a p U N) | contradiction].
Qed.

Lemma fills_local k a b v shape tv u of t : keeps k a -> fills k a v shape tv ->
  fills ((v, shape, tv) :: k) b u of t -> fills k (Then a b) u of t.
Proof. intros H F W s K p P. apply W; [split; [apply F; exact K | apply kept; assumption] | exact P]. Qed.
Lemma fills_after k a b u shape t : keeps k a -> fills k b u shape t -> fills k (Then a b) u shape t.
Proof. intros H F s K p P. apply F; [apply kept; assumption | exact P]. Qed.
Lemma fills_before k a b u shape t : spares u b -> fills k a u shape t -> fills k (Then a b) u shape t.
Proof. intros H F s K p P. cbn. rewrite spared by exact H. apply F; assumption. Qed.
Lemma fills_writing k c u shape t : writes k c u t -> (forall p, within shape p -> stores c u p) -> fills k c u shape t.
Proof. intros W H s K p P. destruct (W s K p) as [|[N _]]; [assumption | contradiction (N (H p P))]. Qed.
Lemma fills_zeroed k a c u shape t : keeps k a -> fills k a u shape (fun _ => zero) -> writes k c u t ->
  (forall p, within shape p -> stores c u p \/ t p = zero) -> fills k (Then a c) u shape t.
Proof.
  intros H F W C s K p P. destruct (W _ (kept _ _ _ H K) p) as [|[N E]]; [assumption|].
  destruct (C p P) as [|V]; [contradiction|]. rewrite V. exact (eq_trans E (F s K p P)).
Qed.
Lemma fills_zeros k u shape of n m : fills k (Storage u of n m (fun _ => zero)) u shape (fun _ => zero).
Proof. intros s K p P. cbn. rewrite Z.eqb_refl. reflexivity. Qed.
Lemma fills_scalar k u x : ready k x -> fills k (Assign u [] [] [] x) u [] (fun _ => eval (held k) x).
Proof. intros R s K [|] []. cbn [run]. rewrite put_here. cbn. apply known_value; assumption. Qed.
Lemma fills_sum k a b u shape t v : keeps k a -> fills k a u shape t -> adds k b u v ->
  fills k (Then a b) u shape (fun p => add (t p) (v p)).
Proof. intros H F A s K p P. cbn [run]. rewrite (A _ (kept _ _ _ H K)), F by assumption. reflexivity. Qed.
Lemma fills_alike k c u shape t v : fills k c u shape v -> (forall p, within shape p -> v p = t p) ->
  fills k c u shape t.
Proof. intros F E s K p P. rewrite F by assumption. auto. Qed.

Lemma adds_nothing k c u : spares u c -> adds k c u (fun _ => zero).
Proof. intros H s _ p. rewrite spared by exact H. ring. Qed.
Lemma adds_one k u sh ex q x : ready k x ->
  adds k (Accumulate add u sh ex q x) u (fun p => if same p q then eval (held k) x else zero).
Proof.
  intros R s K p. cbn [run]. rewrite put_here. destruct (same p q) eqn:E; [| ring].
  apply same_is in E. subst. rewrite (known_value k s) by assumption. reflexivity.
Qed.
Lemma takes_one k u sh ex q x : ready k x ->
  adds k (Accumulate sub u sh ex q x) u (fun p => if same p q then neg (eval (held k) x) else zero).
Proof.
  intros R s K p. cbn [run]. rewrite put_here. destruct (same p q) eqn:E; [| ring].
  apply same_is in E. subst. rewrite (known_value k s) by assumption. ring.
Qed.
Lemma adds_then k a b u v w : keeps k a -> adds k a u v -> adds k b u w ->
  adds k (Then a b) u (fun p => add (v p) (w p)).
Proof. intros H A B s K p. cbn [run]. rewrite B, A by (try apply kept; assumption). ring. Qed.
Lemma adds_when k b a u v : (b = true -> adds k a u v) -> adds k (When b a) u (fun p => if b then v p else zero).
Proof. intros H s K p. cbn [run]. destruct b; [apply H; auto | ring]. Qed.
Lemma adds_for k lo hi body u v : keeps k (For lo hi body) -> (forall i, lo <= i < hi -> adds k (body i) u (v i)) ->
  adds k (For lo hi body) u (fun p => fold add lo hi (fun i => v i p)).
Proof.
  intros Kept H s K p. destruct (Z_le_gt_dec hi lo).
  { rewrite no_iteration, fold_empty by lia. ring. }
  enough (knows k (run (For lo hi body) s) /\
    run (For lo hi body) s u p = add (s u p) (fold add lo hi (fun i => v i p))) by easy.
  apply (through (fun n r => knows k r /\ r u p = add (s u p) (fold add lo n (fun i => v i p)))); [| | lia].
  - split; [exact K | rewrite fold_empty by lia; ring].
  - intros i r ? [R E]. split; [apply kept; [eapply keeps_body; exact Kept | exact R]|].
    rewrite (H i) by (assumption || lia). rewrite E, (sum_last lo (i + 1)) by lia.
    replace (i + 1 - 1) with i by lia. ring.
Qed.
Lemma adds_local k a b v shape tv u t : keeps k a -> spares u a -> fills k a v shape tv ->
  adds ((v, shape, tv) :: k) b u t -> adds k (Then a b) u t.
Proof.
  intros H U F A s K p. cbn [run]. rewrite A, spared by first [exact U | exact (conj (F s K) (kept _ _ _ H K))].
  reflexivity.
Qed.

(* -- what the proof of a nest is made of ------------------------------------------------------------------------- *)
Ltac apart := cbn [keeps spares]; repeat lazymatch goal with
  | |- True => exact I
  | |- _ /\ _ => split
  | |- _ <> _ => discriminate
  | |- forall _ : Z, _ => intro end.
Ltac each_part := repeat lazymatch goal with
  | |- True => exact I
  | |- _ /\ _ => split
  | |- @eq (list _) _ _ => first [reflexivity | same_term]
  | |- _ \/ _ => first [left; reflexivity | right]
  | |- @eq bool _ _ -> _ => intros ?
  | |- forall _ : Z, _ => intro
  | |- _ <= _ < _ -> _ => intros ? end; known.
Ltac at_hand := cbn [ready shape_of Z.eqb Pos.eqb within]; each_part.
Ltac safely :=
  cbn [safe safe_value lasting roomy begun within size fold_right Z.eqb Pos.eqb]; unfold lies, only;
  cbn [within Z.eqb Pos.eqb]; each_part.
(* Contents of storage, by what was said of them. *)
Ltac looked_up := cbn [eval held Z.eqb Pos.eqb same andb];
  repeat match goal with c := _ : tensor |- _ => subst c end; cbv beta iota.
Lemma add_to_zero x : add zero x = x. Proof. ring. Qed.
Ltac computed := unfolded; rewrite ?integer_0, ?Z.add_0_l; rewrite ?add_to_zero.
(* Sums whose terms are zero where only one of them goes. *)
Ltac narrower := match goal with |- fold add ?a ?b _ = fold add ?c ?d _ => first
  [ rewrite (sum_within a b c d) by (intros; first [lia | decided; leaf])
  | rewrite (sum_within c d a b) by (intros; first [lia | decided; leaf]) ] end.
(* A sum over the indices of cells, of which one is the cell. *)
Ltac nothing_added := intros; cbv beta; first
  [ reflexivity | solve [decided; reflexivity] | apply sum_zeros; nothing_added ].
Ltac picked := match goal with a : Z |- fold add ?lo ?hi _ = _ =>
  rewrite (sum_delta a lo hi) by nothing_added; decided end.
Ltac values n := first [ solve [descend 1%nat] | solve [folds] | lazymatch n with
  | O => fail
  | Datatypes.S ?m => first
      [ solve [inside; declared; values m] | solve [narrower; inside; declared; values m] | solve [picked; values m]
      | solve [decided; f_equal; extended; values m] ] end ].
Ltac by_value := looked_up; computed; declared; first [ descend 2%nat | values 4%nat ].
Ltac by_zeros := intros; looked_up; symbols; reflexivity.
Ltac by_zero := looked_up; computed; decided; leaf.
Ltac by_sums := by_value.
Ltac holds := known.
Ltac reached := cbn [stores]; split; [reflexivity | same_term].
Ltac never := exfalso; first [lia | known].
End Make.
