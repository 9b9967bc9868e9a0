(* Lowering is correct (D 5.3), and padding reads as zero (D 5.5.4), for all terms of the core language.

   `lower` is the lowering function of `lowering/lower.py` on generations, sums, guards, selections, lets, reads and
   reshape operators without marks. A reindexer maps the position of an element to that of its cell. A term contains
   what the function decides by proofs: the storage of each let, and whether a sum runs in a scalar variable. The
   theorems hold for each choice. Extents and bounds in a term may depend on the indices of binders around it. *)
Require Export Storing.

Module Make (S : SCALARS).
Module T := Storing.Make S.
Export T.

(* -- terms ------------------------------------------------------------------------------------------------------- *)
(* Scalars; `Named` reads a let-bound tensor, which is named by its storage. *)
Inductive leaf : Type :=
  | Literal (x : scalar)
  | Read (a : tensor) (shape at_ : list Z)
  | Named (u : Z) (shape at_ : list Z)
  | Unary (g : scalar -> scalar) (x : leaf)
  | Binary (g : scalar -> scalar -> scalar) (x y : leaf)
  | Guarded (b : bool) (x : leaf)
  | Pick (b : bool) (x y : leaf).
(* With the extents n, m of the operand where its definition needs them. *)
Inductive operator : Type :=
  | Transpose (n m : Z)
  | Flatten (n m : Z)
  | Split (n by_ : Z)
  | Pad_left (n by_ : Z)
  | Pad_right (n by_ : Z)
  | Truncate_left (n by_ : Z)
  | Truncate_right (n by_ : Z)
  | Place (at_ : Z).
(* Storage of a let: a scalar variable; a buffer; or a buffer in memory m, which is reserved outside of a loop. Buffers
   have contents before the first store and after they are freed. *)
Inductive home : Type :=
  | Variable_ (zeroed : bool)
  | Buffer (zeroed : bool) (count : Z) (before after : tensor)
  | Hoisted (zeroed : bool) (count m capacity : Z) (before after : tensor).
Inductive term : Type :=
  | Leaf (x : leaf)
  | Gen (lo hi : Z) (e : Z -> term)
  | Sum (variable : option Z) (lo hi : Z) (e : Z -> term)
  | Guard (b : bool) (e : term)
  | Filled (b : bool) (shape : list Z) (e : term)  (* a guard that stores zeros where it is false *)
  | Select (b : bool) (x y : term)
  | Bind (u : Z) (shape : list Z) (h : home) (x e : term)
  | Reserve (m capacity : Z) (before after : tensor) (e : term)
  | Reshape (o : operator) (e : term)
  | Concat (n m : Z) (x y : term).
Ltac term_induction term := induction term as
  [x|lo hi e IH|variable lo hi e IH|b e IH|b own e IH|b x IHx y IHy|v own h x IHx e IHe|
   m capacity before after e IH|o e IH|n m x IHx y IHy].

(* -- meaning, by the operators of Meaning.v ---------------------------------------------------------------------- *)
Definition environment : Type := Z -> tensor.
Definition extend (v : environment) (u : Z) (t : tensor) : environment := fun w => if w =? u then t else v w.
Fixpoint element (shape at_ : list Z) (a : tensor) : tensor :=
  match shape, at_ with n :: shape, i :: at_ => element shape at_ (access n a i) | _, _ => a end.
Fixpoint meaning_of_leaf (v : environment) (x : leaf) : tensor :=
  match x with
  | Literal x => literal x
  | Read a shape at_ => element shape at_ a
  | Named u shape at_ => element shape at_ (v u)
  | Unary g x => unary g (meaning_of_leaf v x)
  | Binary g x y => binary g (meaning_of_leaf v x) (meaning_of_leaf v y)
  | Guarded b x => guard b (meaning_of_leaf v x)
  | Pick b x y => select b (meaning_of_leaf v x) (meaning_of_leaf v y)
  end.
Definition reshaped (o : operator) : tensor -> tensor :=
  match o with
  | Transpose _ _ => transpose
  | Flatten _ m => flatten m
  | Split n k => split n k
  | Pad_left _ k => padl k
  | Pad_right n _ => padr n
  | Truncate_left _ k => truncl k
  | Truncate_right _ _ => truncr
  | Place i => place i
  end.
Fixpoint meaning (v : environment) (e : term) : tensor :=
  match e with
  | Leaf x => meaning_of_leaf v x
  | Gen lo _ e => gen lo (fun i => meaning v (e i))
  | Sum _ lo hi e => reduce add lo hi (fun i => meaning v (e i))
  | Guard b e | Filled b _ e => guard b (meaning v e)
  | Select b x y => select b (meaning v x) (meaning v y)
  | Bind u _ _ x e => bind (meaning v x) (fun t => meaning (extend v u t) e)
  | Reserve m _ before _ e => meaning (extend v m before) e
  | Reshape o e => reshaped o (meaning v e)
  | Concat n _ x y => concat n (meaning v x) (meaning v y)
  end.

(* -- lowering ---------------------------------------------------------------------------------------------------- *)
Definition block (l : list statement) : statement := fold_right Then Skip l.
(* The reindexer of an operator: the position in the result of an element of the operand (Fig. 4.5 with E1 to E3). *)
Definition moved (o : operator) (p : list Z) : list Z :=
  match o, p with
  | Transpose _ _, i :: j :: r => j :: i :: r
  | Flatten _ m, i :: j :: r => i * m + j :: r
  | Split _ k, i :: r => i / k :: i - k * (i / k) :: r
  | Pad_left _ k, i :: r => i + k :: r
  | Truncate_left _ k, i :: r => i - k :: r
  | Place i, r => i :: r
  | _, _ => p
  end.
Fixpoint lower_leaf (x : leaf) : value :=
  match x with
  | Literal x => Number x
  | Read a shape at_ => Element a shape shape at_
  | Named u shape at_ => Load u shape shape at_
  | Unary g x => Of_one g (lower_leaf x)
  | Binary g x y => Of_two g (lower_leaf x) (lower_leaf y)
  | Guarded b x => Choose b (lower_leaf x) (Number (integer 0))
  | Pick b x y => Choose b (lower_leaf x) (lower_leaf y)
  end.
Definition zeros : tensor := fun _ => zero.
Definition begins (u : Z) (shape : list Z) (h : home) : list statement :=
  match h with
  | Variable_ true => [Assign u [] [] [] (Number (integer 0))]
  | Variable_ false => []
  | Buffer zeroed count before _ => [Storage u shape count (Own count) (if zeroed then zeros else before)]
  | Hoisted zeroed count m capacity before _ =>
      [Storage u shape count (Of m capacity) (if zeroed then zeros else before)]
  end.
Definition ends_with (u : Z) (shape : list Z) (h : home) : list statement :=
  match h with
  | Variable_ _ => []
  | Buffer _ _ _ after | Hoisted _ _ _ _ _ after => [Storage u [] 1 (Freed shape) after]
  end.
Definition store (adding : bool) (u : Z) (shape p : list Z) (x : value) : statement :=
  if adding then Accumulate add u shape shape p x else Assign u shape shape p x.
Fixpoint zeros_in (shape : list Z) (u : Z) (cells : list Z) (to : list Z -> list Z) (adding : bool) : list statement :=
  match shape with
  | [] => [store adding u cells (to []) (Number (integer 0))]
  | n :: shape => [For 0 n (fun i => block (zeros_in shape u cells (fun p => to (i - 0 :: p)) adding))]
  end.
(* The statements that assign the elements of e to the cells of storage u at their positions, or add them there. *)
Fixpoint lower (e : term) (u : Z) (shape : list Z) (to : list Z -> list Z) (adding : bool) : list statement :=
  match e with
  | Leaf x => [store adding u shape (to []) (lower_leaf x)]
  | Gen lo hi e => [For lo hi (fun i => block (lower (e i) u shape (fun p => to (i - lo :: p)) adding))]
  | Sum None lo hi e => [For lo hi (fun i => block (lower (e i) u shape to true))]
  | Sum (Some v) lo hi e =>
      [Assign v [] [] [] (Number (integer 0)); For lo hi (fun i => block (lower (e i) v [] (fun p => p) true));
       store adding u shape (to []) (Load v [] [] [])]
  | Guard b e => [When b (block (lower e u shape to adding))]
  | Filled b own e =>
      [When b (block (lower e u shape to adding)); When (negb b) (block (zeros_in own u shape to adding))]
  | Select b x y => [When b (block (lower x u shape to adding)); When (negb b) (block (lower y u shape to adding))]
  | Bind v own h x e =>
      begins v own h ++ lower x v own (fun p => p) false ++ lower e u shape to adding ++ ends_with v own h
  | Reserve m capacity before after e =>
      Storage m [capacity] capacity (Own capacity) before :: lower e u shape to adding ++
      [Storage m [] 1 (Freed [capacity]) after]
  | Reshape o e => lower e u shape (fun p => to (moved o p)) adding
  | Concat n m x y =>
      lower x u shape (fun p => to (moved (Pad_right n m) p)) adding ++
      lower y u shape (fun p => to (moved (Pad_left m n) p)) adding
  end.

(* -- padding ----------------------------------------------------------------------------------------------------- *)
Definition exists_in (lo hi : Z) (f : Z -> bool) : bool :=
  existsb (fun k => f (lo + Z.of_nat k)) (seq 0 (Z.to_nat (hi - lo))).
(* The element of the operand that an element of the result comes from, if that is not padding. *)
Definition origin (o : operator) (p : list Z) : list Z :=
  match o, p with
  | Transpose _ _, i :: j :: r => j :: i :: r
  | Flatten _ m, i :: r => i / m :: i - m * (i / m) :: r
  | Split _ k, i :: j :: r => i * k + j :: r
  | Pad_left _ k, i :: r => i - k :: r
  | Truncate_left _ k, i :: r => i + k :: r
  | Place _, _ :: r => r
  | _, _ => p
  end.
Definition present (o : operator) (p : list Z) : bool :=
  match o, p with
  | Split n k, i :: j :: _ => i * k + j <? n
  | Pad_left _ k, i :: _ => k <=? i
  | Pad_right n _, i :: _ => i <? n
  | Place i, j :: _ => j =? i
  | _, _ => true
  end.
(* The elements that are stored; the others are the pad-set of the term. *)
Fixpoint stored (e : term) (p : list Z) : bool :=
  match e with
  | Leaf _ => true
  | Gen lo _ e => match p with i :: r => stored (e (lo + i)) r | [] => false end
  | Sum (Some _) _ _ _ => true
  | Sum None lo hi e => exists_in lo hi (fun i => stored (e i) p)
  | Guard b e => b && stored e p
  | Filled b _ e => if b then stored e p else true
  | Select b x y => if b then stored x p else stored y p
  | Bind _ _ _ _ e | Reserve _ _ _ _ e => stored e p
  | Reshape o e => present o p && stored e (origin o p)
  | Concat n _ x y => match p with i :: r => if i <? n then stored x p else stored y (i - n :: r) | [] => false end
  end.

(* -- well-formed terms ------------------------------------------------------------------------------------------- *)
(* The shape of the operand, and whether its result has a shape. *)
Definition operand (o : operator) (shape : list Z) : list Z :=
  match o, shape with
  | Transpose n m, _ :: _ :: s | Flatten n m, _ :: s => n :: m :: s
  | Split n _, _ :: _ :: s | Pad_left n _, _ :: s | Pad_right n _, _ :: s => n :: s
  | Truncate_left n _, _ :: s | Truncate_right n _, _ :: s => n :: s
  | Place _, _ :: s => s
  | _, _ => []
  end.
Definition fits (o : operator) (shape : list Z) : Prop :=
  match o, shape with
  | Transpose n m, a :: b :: _ => a = m /\ b = n
  | Flatten n m, a :: _ => a = n * m /\ 0 <= n /\ 0 <= m
  | Split n k, a :: b :: _ => n <= a * k /\ b = k /\ 0 < k
  | Pad_left n k, a :: _ | Pad_right n k, a :: _ => a = n + k /\ 0 <= k
  | Truncate_left n k, a :: _ | Truncate_right n k, a :: _ => a = n - k /\ 0 <= k
  | Place i, a :: _ => 0 <= i < a
  | _, _ => False
  end.
(* A truncation keeps an element of its operand. *)
Definition kept_by (o : operator) (p : list Z) : bool :=
  match o, p with
  | Truncate_left _ k, i :: _ => k <=? i
  | Truncate_right n k, i :: _ => i <? n - k
  | _, _ => true
  end.
(* No sum adds directly to the cells of the term, so these may hold anything before. *)
Fixpoint assigned (e : term) : Prop :=
  match e with
  | Leaf _ | Sum (Some _) _ _ _ => True
  | Sum None _ _ _ => False
  | Gen lo hi e => forall i, lo <= i < hi -> assigned (e i)
  | Guard b e | Filled b _ e => b = true -> assigned e
  | Select b x y => (b = true -> assigned x) /\ (b = false -> assigned y)
  | Bind _ _ _ _ e | Reserve _ _ _ _ e | Reshape _ e => assigned e
  | Concat _ _ x y => assigned x /\ assigned y
  end.
(* The storage of lets and sums is distinct from that in use. *)
Fixpoint fresh (used : list Z) (e : term) : Prop :=
  match e with
  | Leaf _ => True
  | Gen _ _ e | Sum None _ _ e => forall i, fresh used (e i)
  | Sum (Some v) _ _ e => ~ In v used /\ forall i, fresh (v :: used) (e i)
  | Guard _ e | Filled _ _ e | Reshape _ e => fresh used e
  | Select _ x y | Concat _ _ x y => fresh used x /\ fresh used y
  | Bind v _ _ x e => ~ In v used /\ fresh (v :: used) x /\ fresh (v :: used) e
  | Reserve m _ _ _ e => ~ In m used /\ fresh (m :: used) e
  end.
Definition scope : Type := list (Z * list Z).
Fixpoint ok_leaf (k : scope) (x : leaf) : Prop :=
  match x with
  | Literal _ => True
  | Read _ shape at_ => within shape at_
  | Named u shape at_ => In (u, shape) k /\ within shape at_
  | Unary _ x => ok_leaf k x
  | Binary _ x y => ok_leaf k x /\ ok_leaf k y
  | Guarded b x => b = true -> ok_leaf k x
  | Pick b x y => (b = true -> ok_leaf k x) /\ (b = false -> ok_leaf k y)
  end.
Definition holds_all (k : scope) (shape : list Z) (h : home) (x : term) : Prop :=
  match h with
  | Variable_ zeroed => shape = [] /\ (zeroed = true \/ assigned x /\ stored x [] = true)
  | Buffer zeroed count _ _ =>
      count = size shape /\ (zeroed = true \/ assigned x /\ forall p, within shape p -> stored x p = true)
  | Hoisted zeroed count m capacity _ _ =>
      (In (m, [capacity]) k /\ count <= capacity /\ count = size shape) /\
      (zeroed = true \/ assigned x /\ forall p, within shape p -> stored x p = true)
  end.
(* A term has a shape, its reads are in bounds, and truncations cut only padding. *)
Fixpoint ok (k : scope) (e : term) (shape : list Z) : Prop :=
  match e with
  | Leaf x => shape = [] /\ ok_leaf k x
  | Gen lo hi e => match shape with n :: s => n = hi - lo /\ forall i, lo <= i < hi -> ok k (e i) s | [] => False end
  | Sum v lo hi e => match v with Some _ => shape = [] | None => True end /\ forall i, lo <= i < hi -> ok k (e i) shape
  | Guard b e => b = true -> ok k e shape
  | Filled b own e => own = shape /\ (b = true -> ok k e shape)
  | Select b x y => (b = true -> ok k x shape) /\ (b = false -> ok k y shape)
  | Bind v own h x e => ok k x own /\ ok ((v, own) :: k) e shape /\ holds_all k own h x
  | Reserve m capacity _ _ e => ok ((m, [capacity]) :: k) e shape
  | Reshape o e => fits o shape /\ ok k e (operand o shape) /\
      forall p, within (operand o shape) p -> stored e p = true -> kept_by o p = true
  | Concat n m x y =>
      match shape with a :: s => a = n + m /\ 0 <= n /\ 0 <= m /\ ok k x (n :: s) /\ ok k y (m :: s) | [] => False end
  end.

(* -- positions --------------------------------------------------------------------------------------------------- *)
Lemma exists_in_range lo hi f : exists_in lo hi f = true <-> exists i, lo <= i < hi /\ f i = true.
Proof.
  unfold exists_in. rewrite existsb_exists. split.
  - intros (k & K & F). apply in_seq in K. exists (lo + Z.of_nat k). split; [lia | exact F].
  - intros (i & I & F). exists (Z.to_nat (i - lo)). split; [apply in_seq; lia|].
    replace (lo + Z.of_nat (Z.to_nat (i - lo))) with i by lia. exact F.
Qed.
Lemma element_at shape : forall at_ a p, within shape at_ -> element shape at_ a p = a (at_ ++ p).
Proof.
  induction shape as [|n shape IH]; intros [|i at_] a p; cbn [within element app]; try easy. intros [I W].
  rewrite IH by exact W. unfold access. replace ((0 <=? i) && (i <? n)) with true by lia. reflexivity.
Qed.
Ltac apart_lists := repeat match goal with
  | H : within (_ :: _) ?p |- _ => destruct p; cbn [within] in H; [contradiction H | destruct H]
  | H : match ?p with [] => False | _ :: _ => _ end |- _ => destruct p; [contradiction H | destruct H]
  | H : match ?p with [] => True | _ :: _ => False end |- _ => destruct p; [clear H | contradiction H]
  | H : within [] ?p |- _ => destruct p; [clear H | contradiction H] end.
Lemma quotient_of m i j : 0 <= j < m -> (i * m + j) / m = i.
Proof. intros. symmetry. apply (Z.div_unique _ _ _ j); lia. Qed.
Lemma quotient_parts k i : 0 < k -> 0 <= i -> 0 <= i / k /\ 0 <= i - k * (i / k) < k /\
  i / k * k + (i - k * (i / k)) = i.
Proof. intros. pose proof (Z.div_pos i k). pose proof (Z.mod_pos_bound i k). rewrite Z.mod_eq in * by lia. lia. Qed.
Lemma moved_back o shape p : fits o shape -> within (operand o shape) p -> kept_by o p = true ->
  within shape (moved o p) /\ present o (moved o p) = true /\ origin o (moved o p) = p.
Proof.
  destruct o as [n m|n m|n k|n k|n k|n k|n k|i], shape as [|a [|b s]]; cbn [fits operand]; try easy; intros F W K;
    apart_lists; cbn [kept_by moved within present origin] in *;
    repeat match goal with H : _ /\ _ |- _ => destruct H end; subst; try rewrite quotient_of by lia.
  all: try match goal with |- context [?i / ?k] =>
    pose proof (quotient_parts k i ltac:(lia) ltac:(lia)) as (? & ? & ?) end.
  all: repeat split; try assumption; try lia; try nia; repeat f_equal; try lia.
Qed.
Lemma origin_back o shape p : fits o shape -> within shape p -> present o p = true ->
  within (operand o shape) (origin o p) /\ kept_by o (origin o p) = true /\ moved o (origin o p) = p.
Proof.
  destruct o as [n m|n m|n k|n k|n k|n k|n k|i], shape as [|a [|b s]]; cbn [fits operand]; try easy; intros F W K;
    apart_lists; cbn [kept_by moved within present origin] in *;
    repeat match goal with H : _ /\ _ |- _ => destruct H end; subst; try rewrite quotient_of by lia.
  all: try match goal with |- context [?i / ?k] => assert (0 < k) by nia;
    pose proof (quotient_parts k i ltac:(lia) ltac:(lia)) as (? & ? & ?) end.
  all: repeat split; try assumption; try lia; try nia; repeat f_equal; try lia.
Qed.
Lemma reshaped_at o t shape p : fits o shape -> within shape p ->
  reshaped o t p = if present o p then t (origin o p) else zero.
Proof.
  destruct o as [n m|n m|n k|n k|n k|n k|n k|i], shape as [|a [|b s]]; cbn [fits]; try easy; intros F W;
    apart_lists; cbn -[Z.mul Z.div]; reflexivity.
Qed.

(* -- padding reads as zero (D 5.5.4) ------------------------------------------------------------------------------ *)
Fixpoint zeros_term (shape : list Z) : term :=
  match shape with [] => Leaf (Literal (integer 0)) | n :: shape => Gen 0 n (fun _ => zeros_term shape) end.
Lemma zeros_lower shape : forall u cells to adding, lower (zeros_term shape) u cells to adding =
  zeros_in shape u cells to adding.
Proof.
  induction shape as [|n shape IH]; intros; cbn [zeros_term lower zeros_in lower_leaf]; [reflexivity|].
  do 2 f_equal. apply functional_extensionality. intros i. rewrite IH. reflexivity.
Qed.
Lemma zeros_fresh shape used : fresh used (zeros_term shape).
Proof. induction shape; cbn; auto. Qed.
Lemma zeros_ok shape k : ok k (zeros_term shape) shape.
Proof. induction shape; cbn; auto. split; [lia | auto]. Qed.
Lemma zeros_assigned shape : assigned (zeros_term shape).
Proof. induction shape; cbn; auto. Qed.
Lemma zeros_value shape v : forall p, within shape p -> meaning v (zeros_term shape) p = zero.
Proof. induction shape as [|n shape IH]; intros [|i p] W; try easy; [exact integer_0 | apply IH, W]. Qed.
Lemma zeros_stored shape : forall p, within shape p -> stored (zeros_term shape) p = true.
Proof. induction shape as [|n shape IH]; intros [|i p] W; try easy. apply IH, W. Qed.
Theorem padding_is_zero e : forall k v shape p, ok k e shape -> within shape p -> stored e p = false ->
  meaning v e p = zero.
Proof.
  induction e as [x|lo hi e IH|variable lo hi e IH|b e IH|b own e IH|b x IHx y IHy|u own h x IHx e IHe|
    m capacity before after e IH|o e IH|n m x IHx y IHy];
    cbn [ok stored meaning]; intros k v shape p O W F.
  - discriminate F.
  - destruct shape as [|n s]; [contradiction O|]. destruct O as [-> O], p as [|i r]; [contradiction W|].
    destruct W as [I W]. apply (IH (lo + i) k v s r); [apply O; lia | exact W | exact F].
  - destruct O as [_ O], variable as [r|]; [discriminate F|]. apply sum_zeros. intros i I.
    apply (IH i k v shape p); [apply O, I | exact W|]. destruct (stored (e i) p) eqn:E; [| reflexivity].
    rewrite <- F. symmetry. apply exists_in_range. eauto.
  - unfold guard. destruct b; [| reflexivity]. exact (IH k v shape p (O eq_refl) W F).
  - unfold guard. destruct O as [_ O], b; [| reflexivity]. exact (IH k v shape p (O eq_refl) W F).
  - unfold select. destruct O as [X Y], b; eauto.
  - destruct O as (_ & O & _). eapply IHe; eauto.
  - eapply IH; eauto.
  - destruct O as (A & O & _). rewrite (reshaped_at o _ shape p) by assumption.
    destruct (present o p) eqn:P; [| reflexivity]. destruct (origin_back o shape p A W P) as (W' & _ & _). eauto.
  - destruct shape as [|a s]; [contradiction O|]. destruct O as (-> & N & M & X & Y), p as [|i r]; [contradiction W|].
    destruct W as [I W]. unfold concat. destruct (Z.ltb_spec i n).
    + apply (IHx k v (n :: s) (i :: r)); [exact X | split; [lia | exact W] | exact F].
    + apply (IHy k v (m :: s) (i - n :: r)); [exact Y | split; [lia | exact W] | exact F].
Qed.

(* -- storage that a nest does not change -------------------------------------------------------------------------- *)
Lemma spares_block u l : spares u (block l) <-> Forall (spares u) l.
Proof.
  induction l as [|c l IH]; cbn; [split; auto|]. rewrite IH. split; [intros []; auto | intros H; inversion H; auto].
Qed.
Lemma spares_store w adding u shape p x : w <> u -> spares w (store adding u shape p x).
Proof. destruct adding; cbn; auto. Qed.
Lemma zeros_spare w shape : forall u cells to adding, w <> u -> Forall (spares w) (zeros_in shape u cells to adding).
Proof.
  induction shape as [|n shape IH]; intros u cells to adding D; cbn [zeros_in]; repeat constructor.
  - apply spares_store. exact D.
  - cbn. intros i. apply spares_block. apply IH, D.
Qed.
Lemma lower_spares w e : forall used u shape to adding, fresh used e -> In w used -> w <> u ->
  Forall (spares w) (lower e u shape to adding).
Proof.
  term_induction e;
    cbn [fresh lower]; intros used u shape to adding F I D.
  - auto using spares_store.
  - repeat constructor. cbn. intros i. apply spares_block. eapply IH; eauto.
  - destruct variable as [r|].
    + destruct F as [N F]. assert (w <> r) by (intros ->; contradiction).
      repeat constructor; [assumption | cbn; intros i; apply spares_block; apply (IH i (r :: used)); cbn; auto |].
      apply spares_store. exact D.
    + repeat constructor. cbn. intros i. apply spares_block. eapply IH; eauto.
  - repeat constructor. cbn. apply spares_block. eauto.
  - repeat constructor; cbn; apply spares_block; [eauto | auto using zeros_spare].
  - destruct F. repeat constructor; cbn; apply spares_block; eauto.
  - destruct F as (N & X & E). assert (w <> v) by (intros ->; contradiction).
    apply Forall_app. split; [destruct h as [[]| |]; repeat constructor; assumption|].
    apply Forall_app. split; [apply (IHx (v :: used)); cbn; auto|].
    apply Forall_app. split; [apply (IHe (v :: used)); cbn; auto|].
    destruct h; repeat constructor; assumption.
  - destruct F as [N F]. assert (w <> m) by (intros ->; contradiction). constructor; [assumption|].
    apply Forall_app. split; [apply (IH (m :: used)); cbn; auto | repeat constructor; assumption].
  - eauto.
  - destruct F. apply Forall_app. split; eauto.
Qed.
Lemma lower_keeps w e used u shape to adding s p : fresh used e -> In w used -> w <> u ->
  run (block (lower e u shape to adding)) s w p = s w p.
Proof. intros. apply spared, spares_block. eapply lower_spares; eauto. Qed.

(* -- values ------------------------------------------------------------------------------------------------------- *)
Lemma run_app a b s : run (block (a ++ b)) s = run (block b) (run (block a) s).
Proof. revert s. induction a as [|c a IH]; intros s; [reflexivity | apply IH]. Qed.
Definition holding (k : scope) (v : environment) (s : state) : Prop :=
  forall u shape, In (u, shape) k -> forall p, within shape p -> s u p = v u p.
Lemma leaf_value k v s x : holding k v s -> ok_leaf k x -> eval s (lower_leaf x) = meaning_of_leaf v x [].
Proof.
  intros H. induction x; cbn [ok_leaf lower_leaf eval meaning_of_leaf]; intros O.
  - reflexivity.
  - rewrite element_at, app_nil_r by exact O. reflexivity.
  - destruct O as [I W]. rewrite element_at, app_nil_r by exact W. eapply H; eauto.
  - unfold unary. f_equal. auto.
  - destruct O. unfold binary. f_equal; auto.
  - unfold guard. destruct b; [auto | exact integer_0].
  - destruct O. unfold select. destruct b; auto.
Qed.
Definition inside (e : term) (shape p : list Z) : Prop := within shape p /\ stored e p = true.
(* The cells of stored elements have their values, added to those before if `adding`; other cells do not change. *)
Definition computes (e : term) (shape : list Z) (v : environment) (u : Z) (to : list Z -> list Z) (adding : bool)
    (s after : state) : Prop :=
  (forall p, inside e shape p -> after u (to p) = if adding then add (s u (to p)) (meaning v e p) else meaning v e p) /\
  (forall q, (forall p, inside e shape p -> to p <> q) -> after u q = s u q).
Definition distinct_cells (e : term) (shape : list Z) (to : list Z -> list Z) : Prop :=
  forall p q, inside e shape p -> inside e shape q -> to p = to q -> p = q.
Definition in_use (used : list Z) (k : scope) (u : Z) : Prop :=
  In u used /\ forall w shape, In (w, shape) k -> In w used /\ w <> u.
Definition starts (e : term) (shape : list Z) (u : Z) (to : list Z -> list Z) (adding : bool) (s : state) : Prop :=
  adding = false -> assigned e \/ forall p, inside e shape p -> s u (to p) = zero.
Lemma store_here adding u shape p x s : run (store adding u shape p x) s u p =
  if adding then add (s u p) (eval s x) else eval s x.
Proof. destruct adding; cbn [store run]; rewrite put_here; destruct (same p p) eqn:E; try reflexivity;
  enough (same p p = true) by congruence; apply same_is; reflexivity. Qed.
Lemma store_elsewhere adding u shape p x s q : p <> q -> run (store adding u shape p x) s u q = s u q.
Proof. intros N. destruct adding; cbn [store run]; rewrite put_here; destruct (same q p) eqn:E; try reflexivity;
  apply same_is in E; congruence. Qed.
Lemma holding_kept k v s c : holding k v s -> (forall w shape, In (w, shape) k -> spares w c) -> holding k v (run c s).
Proof. intros H S w shape I p W. rewrite spared by eauto. eauto. Qed.
Lemma lower_holding k v s used e u shape to adding : holding k v s -> fresh used e -> in_use used k u ->
  holding k v (run (block (lower e u shape to adding)) s).
Proof.
  intros H F [_ U]. apply holding_kept; [exact H|]. intros w own I. apply spares_block.
  destruct (U w own I). eapply lower_spares; eauto.
Qed.
Definition correct (e : term) : Prop := forall used k shape v u cells to adding s,
  fresh used e -> in_use used k u -> ok k e shape -> holding k v s -> distinct_cells e shape to ->
  starts e shape u to adding s -> computes e shape v u to adding s (run (block (lower e u cells to adding)) s).

Lemma inside_sum lo hi e i shape p : lo <= i < hi -> inside (e i) shape p -> inside (Sum None lo hi e) shape p.
Proof. intros I [W F]. split; [exact W | cbn; apply exists_in_range; eauto]. Qed.
Lemma sum_correct lo hi e : (forall i, correct (e i)) -> forall used k shape v u cells to s,
  (forall i, fresh used (e i)) -> in_use used k u -> (forall i, lo <= i < hi -> ok k (e i) shape) -> holding k v s ->
  distinct_cells (Sum None lo hi e) shape to ->
  computes (Sum None lo hi e) shape v u to true s (run (For lo hi (fun i => block (lower (e i) u cells to true))) s).
Proof.
  intros IH used k shape v u cells to s F U O H D. destruct (Z_le_gt_dec hi lo).
  { rewrite no_iteration by lia. split; [| reflexivity]. intros p [_ P]. apply exists_in_range in P.
    destruct P as (? & ? & _). lia. }
  enough (holding k v (run (For lo hi (fun i => block (lower (e i) u cells to true))) s) /\
    computes (Sum None lo hi e) shape v u to true s (run (For lo hi (fun i => block (lower (e i) u cells to true))) s))
    by tauto.
  apply (through (fun n t => holding k v t /\
    (forall p, inside (Sum None lo hi e) shape p -> t u (to p) =
      add (s u (to p)) (fold add lo n (fun i => meaning v (e i) p))) /\
    (forall q, (forall p, inside (Sum None lo hi e) shape p -> to p <> q) -> t u q = s u q))); [| | lia].
  - split; [exact H | split; [| reflexivity]]. intros p _. rewrite fold_empty by lia. ring.
  - intros i t I (Ht & V & Q).
    assert (Di : distinct_cells (e i) shape to).
    { intros p q P P'. apply D; apply (inside_sum lo hi e i); assumption. }
    destruct (IH i used k shape v u cells to true t (F i) U (O i I) Ht Di ltac:(discriminate)) as [V' Q'].
    split; [apply (lower_holding k v t used); auto | split].
    + intros p P. rewrite (sum_last lo (i + 1)) by lia. replace (i + 1 - 1) with i by lia.
      destruct (stored (e i) p) eqn:E.
      * rewrite V' by (split; [apply P | exact E]). rewrite V by exact P. ring.
      * rewrite (padding_is_zero (e i) k v shape p (O i I) (proj1 P) E). rewrite Q'; [rewrite V by exact P; ring|].
        intros p' P' S. apply (D p' p) in S; [| apply (inside_sum lo hi e i); assumption | exact P].
        subst. destruct P'. congruence.
    + intros q N. rewrite Q'; [apply Q, N|]. intros p P. apply N, (inside_sum lo hi e i); assumption.
Qed.

Lemma gen_correct lo hi e : (forall i, correct (e i)) -> correct (Gen lo hi e).
Proof.
  intros IH used k [|n shape] v u cells to adding s F U O H D S; [contradiction O|]. destruct O as [-> O].
  cbn [lower block fold_right]. change (run (Then ?a Skip) s) with (run a s).
  set (body := fun i => block (lower (e i) u cells (fun p => to (i - lo :: p)) adding)).
  destruct (Z_le_gt_dec hi lo).
  { rewrite no_iteration by lia. split; [| reflexivity]. intros [|i p] [W _]; [contradiction W | destruct W; lia]. }
  set (result := fun p => if adding then add (s u (to p)) (meaning v (Gen lo hi e) p) else meaning v (Gen lo hi e) p).
  enough (holding k v (run (For lo hi body) s) /\
    (forall j r, inside (Gen lo hi e) (hi - lo :: shape) (j :: r) ->
      run (For lo hi body) s u (to (j :: r)) = if lo + j <? hi then result (j :: r) else s u (to (j :: r))) /\
    (forall q, (forall p, inside (Gen lo hi e) (hi - lo :: shape) p -> to p <> q) ->
      run (For lo hi body) s u q = s u q)).
  { destruct H0 as (_ & V & Q). split; [| exact Q]. intros [|j r] P; [destruct P as [[] _]|]. rewrite V by exact P.
    destruct P as [[J _] _]. replace (lo + j <? hi) with true by lia. reflexivity. }
  apply (through (fun n t => holding k v t /\
    (forall j r, inside (Gen lo hi e) (hi - lo :: shape) (j :: r) ->
      t u (to (j :: r)) = if lo + j <? n then result (j :: r) else s u (to (j :: r))) /\
    (forall q, (forall p, inside (Gen lo hi e) (hi - lo :: shape) p -> to p <> q) -> t u q = s u q))); [| | lia].
  - split; [exact H | split; [| reflexivity]]. intros j r [[J _] _]. replace (lo + j <? lo) with false by lia.
    reflexivity.
  - intros i t I (Ht & V & Q).
    assert (At : forall r, inside (e i) shape r -> inside (Gen lo hi e) (hi - lo :: shape) (i - lo :: r)).
    { intros r [W E]. split; cbn [within stored]; [split; [lia | exact W]|].
      replace (lo + (i - lo)) with i by lia. exact E. }
    assert (Di : distinct_cells (e i) shape (fun p => to (i - lo :: p))).
    { intros p q P P' E. apply D in E; auto. congruence. }
    assert (Si : starts (e i) shape u (fun p => to (i - lo :: p)) adding t).
    { intros A. destruct (S A) as [Y | Z]; [left; apply Y; lia | right]. intros p P.
      rewrite (V _ _ (At p P)). replace (lo + (i - lo) <? i) with false by lia. apply Z, At, P. }
    destruct (IH i used k shape v u cells _ adding t (F i) U (O i I) Ht Di Si) as [V' Q'].
    fold (body i) in V', Q'. split; [apply (lower_holding k v t used); auto | split].
    + intros j r P. destruct (Z.eq_dec j (i - lo)) as [->|N].
      * assert (P' : inside (e i) shape r).
        { destruct P as [[_ W] E]. cbn [stored] in E. replace (lo + (i - lo)) with i in E by lia. split; assumption. }
        rewrite V' by exact P'. rewrite V by exact P. replace (lo + (i - lo) <? i) with false by lia.
        replace (lo + (i - lo) <? i + 1) with true by lia. subst result. cbn [meaning gen].
        replace (lo + (i - lo)) with i by lia. reflexivity.
      * rewrite Q'; [rewrite V by exact P; replace (lo + j <? i + 1) with (lo + j <? i) by lia; reflexivity|].
        intros p P' E. apply D in E; [congruence | apply At, P' | exact P].
    + intros q N. rewrite Q'; [apply Q, N|]. intros p P. apply N, At, P.
Qed.

Lemma variable_correct r lo hi e : (forall i, correct (e i)) -> correct (Sum (Some r) lo hi e).
Proof.
  intros IH used k shape v u cells to adding s [N F] U [-> O] H D S.
  set (loop := For lo hi (fun i => block (lower (e i) r [] (fun p => p) true))).
  change (run (block (lower (Sum (Some r) lo hi e) u cells to adding)) s) with
    (run (store adding u cells (to []) (Load r [] [] [])) (run loop (run (Assign r [] [] [] (Number (integer 0))) s))).
  set (s1 := run (Assign r [] [] [] (Number (integer 0))) s).
  assert (Hr : forall w own, In (w, own) k -> w <> r) by (intros w own I ->; apply N; eapply U; eauto).
  assert (H1 : holding k v s1).
  { apply holding_kept; [exact H|]. intros w own I. cbn. eauto. }
  assert (Ur : in_use (r :: used) k r).
  { split; [left; reflexivity|]. intros w own I. split; [right; eapply U; eauto | eauto]. }
  assert (Dr : distinct_cells (Sum None lo hi e) [] (fun p => p)) by (intros p q _ _ E; exact E).
  destruct (sum_correct lo hi e IH (r :: used) k [] v r [] (fun p => p) s1 F Ur O H1 Dr) as [V Q]. fold loop in V, Q.
  assert (Z1 : s1 r [] = zero) by (subst s1; cbn [run]; rewrite put_here; exact integer_0).
  assert (L : run loop s1 r [] = meaning v (Sum None lo hi e) []).
  { destruct (stored (Sum None lo hi e) []) eqn:E.
    - rewrite V by (split; [exact I | exact E]). rewrite Z1. ring.
    - rewrite (padding_is_zero (Sum None lo hi e) k v [] [] (conj I O) I E).
      rewrite Q; [exact Z1|]. intros [|? ?] [W X] ?; [congruence | contradiction W]. }
  assert (Nu : u <> r) by (intros ->; apply N; apply U).
  assert (K : forall q, run loop s1 u q = s u q).
  { intros q. subst loop s1. rewrite spared.
    - cbn [run]. apply put_elsewhere. exact Nu.
    - cbn. intros i. apply spares_block. apply (lower_spares u (e i) (r :: used)); [apply F | right; apply U |
      exact Nu]. }
  split.
  - intros [|? ?] [W _]; [| contradiction W]. rewrite store_here. cbn [eval]. rewrite L, K. reflexivity.
  - intros q A. rewrite store_elsewhere by (apply A; split; [exact I | reflexivity]). apply K.
Qed.

Lemma begins_spares w v own h : w <> v -> Forall (spares w) (begins v own h).
Proof. intros D. destruct h as [[]| |]; repeat constructor; exact D. Qed.
Lemma ends_spares w v own h : w <> v -> Forall (spares w) (ends_with v own h).
Proof. intros D. destruct h; repeat constructor; exact D. Qed.
Lemma bind_correct v own h x e : correct x -> correct e -> correct (Bind v own h x e).
Proof.
  intros IHx IHe used k shape vals u cells to adding s (N & Fx & Fe) U (Ox & Oe & A) H D S. cbn [lower].
  rewrite !run_app.
  set (s1 := run (block (begins v own h)) s). set (s2 := run (block (lower x v own (fun p => p) false)) s1).
  assert (Nu : u <> v) by (intros ->; apply N, U).
  assert (Kv : forall w shape, In (w, shape) k -> w <> v).
  { intros w sh I ->. apply N. eapply U; eauto. }
  assert (H1 : holding k vals s1).
  { apply holding_kept; [exact H|]. intros w sh I. apply spares_block, begins_spares. eauto. }
  assert (Uv : in_use (v :: used) k v).
  { split; [left; reflexivity|]. intros w sh I. split; [right; eapply U; eauto | eauto]. }
  assert (Dv : distinct_cells x own (fun p => p)) by (intros p q _ _ E; exact E).
  assert (Z : assigned x /\ (forall p, within own p -> stored x p = true) \/ forall p, within own p -> s1 v p = zero).
  { destruct h as [zeroed|zeroed count before after|zeroed count m capacity before after]; destruct A as [B A].
    - subst own. destruct zeroed; [right; intros [|? ?] []; subst s1; cbn; rewrite put_here; exact integer_0|].
      destruct A as [|[A F]]; [discriminate|]. left. split; [exact A|]. intros [|? ?] []. exact F.
    - destruct zeroed; [right; intros p _; subst s1; cbn; rewrite Z.eqb_refl; reflexivity|].
      destruct A as [|A]; [discriminate | left; exact A].
    - destruct zeroed; [right; intros p _; subst s1; cbn; rewrite Z.eqb_refl; reflexivity|].
      destruct A as [|A]; [discriminate | left; exact A]. }
  assert (Sv : starts x own v (fun p => p) false s1).
  { intros _. destruct Z as [[Z _]|Z]; [left; exact Z | right; intros p [W _]; auto]. }
  destruct (IHx (v :: used) k own vals v own (fun p => p) false s1 Fx Uv Ox H1 Dv Sv) as [V Q]. fold s2 in V, Q.
  assert (H2 : holding ((v, own) :: k) (extend vals v (meaning vals x)) s2).
  { intros w sh [[= <- <-]|I] p W; unfold extend.
    - rewrite Z.eqb_refl. destruct (stored x p) eqn:E; [apply V; split; assumption|].
      destruct Z as [[_ Z]|Z]; [rewrite Z in E by exact W; discriminate|].
      rewrite (padding_is_zero x k vals own p Ox W E). rewrite Q; [apply Z, W|]. intros q [_ F] ->. congruence.
    - destruct (Z.eqb_spec w v); [contradiction (Kv w sh I e0)|].
      refine (lower_holding k vals s1 (v :: used) x v own _ _ H1 Fx Uv w sh I p W). }
  assert (Ue : in_use (v :: used) ((v, own) :: k) u).
  { split; [right; apply U|]. intros w sh [[= <- <-]|I]; [split; [left; reflexivity | auto]|].
    split; [right|]; eapply U; eauto. }
  assert (K : forall q, s2 u q = s u q).
  { intros q. subst s2 s1. rewrite (lower_keeps u x (v :: used)) by (first [exact Fx | exact Nu | right; apply U]).
    apply spared, spares_block, begins_spares, Nu. }
  assert (Se : starts e shape u to adding s2).
  { intros B. destruct (S B) as [|Y]; [left; assumption | right]. intros p P. rewrite K. apply Y, P. }
  destruct (IHe (v :: used) _ shape _ u cells to adding s2 Fe Ue Oe H2 D Se) as [V' Q'].
  assert (L : forall t q, run (block (ends_with v own h)) t u q = t u q).
  { intros t q. apply spared, spares_block, ends_spares, Nu. }
  split.
  - intros p P. rewrite L, V', K by exact P. reflexivity.
  - intros q A'. rewrite L, Q' by exact A'. apply K.
Qed.

Lemma reserve_correct m capacity before after e : correct e -> correct (Reserve m capacity before after e).
Proof.
  intros IH used k shape v u cells to adding s [N F] U O H D S.
  set (s1 := run (Storage m [capacity] capacity (Own capacity) before) s).
  set (rest := lower e u cells to adding).
  change (run (block (lower (Reserve m capacity before after e) u cells to adding)) s) with
    (run (block (rest ++ [Storage m [] 1 (Freed [capacity]) after])) s1).
  rewrite run_app.
  assert (Nu : u <> m) by (intros ->; apply N, U).
  assert (Km : forall w shape, In (w, shape) k -> w <> m) by (intros w sh I ->; apply N; eapply U; eauto).
  assert (K : forall q, s1 u q = s u q) by (intros q; subst s1; apply spared; exact Nu).
  assert (H1 : holding ((m, [capacity]) :: k) (extend v m before) s1).
  { intros w sh [[= <- <-]|I] p W; unfold extend.
    - rewrite Z.eqb_refl. subst s1. cbn. rewrite Z.eqb_refl. reflexivity.
    - destruct (Z.eqb_spec w m); [contradiction (Km w sh I e0)|]. subst s1. cbn.
      destruct (Z.eqb_spec w m); [contradiction | eapply H; eauto]. }
  assert (Ue : in_use (m :: used) ((m, [capacity]) :: k) u).
  { split; [right; apply U|]. intros w sh [[= <- <-]|I]; [split; [left; reflexivity | auto]|].
    split; [right|]; eapply U; eauto. }
  assert (Se : starts e shape u to adding s1).
  { intros B. destruct (S B) as [|Y]; [left; assumption | right]. intros p P. rewrite K. apply Y, P. }
  destruct (IH (m :: used) _ shape _ u cells to adding s1 F Ue O H1 D Se) as [V Q]. fold rest in V, Q.
  assert (L : forall t q, run (block [Storage m [] 1 (Freed [capacity]) after]) t u q = t u q).
  { intros t q. apply spared. cbn. auto. }
  split.
  - intros p P. rewrite L, V, K by exact P. reflexivity.
  - intros q A. rewrite L, Q by exact A. apply K.
Qed.

Lemma reshape_correct o e : correct e -> correct (Reshape o e).
Proof.
  intros IH used k shape v u cells to adding s F U (A & O & T) H D S. cbn [lower].
  assert (At : forall p, inside e (operand o shape) p -> inside (Reshape o e) shape (moved o p) /\
    origin o (moved o p) = p).
  { intros p [W E]. destruct (moved_back o shape p A W (T p W E)) as (W' & P & B). split; [| exact B].
    split; [exact W' | cbn; rewrite P, B; exact E]. }
  assert (De : distinct_cells e (operand o shape) (fun p => to (moved o p))).
  { intros p q P Q E. apply At in P, Q. destruct P as [P <-], Q as [Q <-]. apply D in E; [congruence | assumption..]. }
  assert (Se : starts e (operand o shape) u (fun p => to (moved o p)) adding s).
  { intros B. destruct (S B) as [|Z]; [left; assumption | right]. intros p P. apply Z, At, P. }
  destruct (IH used k (operand o shape) v u cells _ adding s F U O H De Se) as [V Q]. split.
  - intros p [W E]. cbn [stored] in E. apply andb_prop in E. destruct E as [P E].
    destruct (origin_back o shape p A W P) as (W' & _ & M). specialize (V (origin o p) (conj W' E)). cbv beta in V.
    rewrite M in V. rewrite V. cbn [meaning]. rewrite (reshaped_at o (meaning v e) shape p A W), P. reflexivity.
  - intros q N. apply Q. intros p P. apply N, At, P.
Qed.

Lemma concat_correct n m x y : correct x -> correct y -> correct (Concat n m x y).
Proof.
  intros IHx IHy used k [|a shape] v u cells to adding s [Fx Fy] U O H D S; [contradiction O|].
  destruct O as (-> & N & M & Ox & Oy). cbn [lower]. rewrite run_app. cbn [moved].
  set (s1 := run (block (lower x u cells (fun p => to p) adding)) s).
  set (right_ := fun p => to (match p with i :: r => i + n :: r | _ => p end)).
  assert (Ax : forall p, inside x (n :: shape) p -> inside (Concat n m x y) (n + m :: shape) p).
  { intros [|i r] [W E]; [contradiction W|]. destruct W as [I W]. split; [split; [lia | exact W]|]. cbn [stored].
    replace (i <? n) with true by lia. exact E. }
  assert (Ay : forall i r, inside y (m :: shape) (i :: r) -> inside (Concat n m x y) (n + m :: shape) (i + n :: r)).
  { intros i r [[I W] E]. split; [split; [lia | exact W]|]. cbn [stored]. replace (i + n <? n) with false by lia.
    replace (i + n - n) with i by lia. exact E. }
  assert (Dx : distinct_cells x (n :: shape) (fun p => to p)) by (intros p q P Q E; apply D; auto).
  assert (Dy : distinct_cells y (m :: shape) right_).
  { intros [|i p] [|j q] P Q E; try solve [destruct P as [[] _]]; try solve [destruct Q as [[] _]].
    apply D in E; [| apply Ay; assumption..]. injection E as E ->. f_equal. lia. }
  assert (Sx : starts x (n :: shape) u (fun p => to p) adding s).
  { intros B. destruct (S B) as [[X _]|Z]; [left; exact X | right; auto]. }
  destruct (IHx used k (n :: shape) v u cells _ adding s Fx U Ox H Dx Sx) as [V Q]. fold s1 in V, Q.
  assert (Away : forall i r, inside y (m :: shape) (i :: r) -> s1 u (to (i + n :: r)) = s u (to (i + n :: r))).
  { intros i r P. apply Q. intros p P' E. apply D in E; [| apply Ax, P' | apply Ay, P]. subst.
    destruct P' as [[J _] _], P as [[I _] _]. lia. }
  assert (Sy : starts y (m :: shape) u right_ adding s1).
  { intros B. destruct (S B) as [[_ Y]|Z]; [left; exact Y | right]. intros [|i r] P; [destruct P as [[] _]|].
    change (right_ (i :: r)) with (to (i + n :: r)). rewrite Away by exact P. apply Z, Ay, P. }
  destruct (IHy used k (m :: shape) v u cells right_ adding s1 Fy U Oy (lower_holding k v s used x u _ _ _ H Fx U)
    Dy Sy)
    as [V' Q'].
  split.
  - intros [|i r] P; [destruct P as [[] _]|]. destruct P as [[I W] E]. cbn [stored meaning concat] in *.
    destruct (Z.ltb_spec i n) as [L|L].
    + rewrite Q'; [apply V; split; [split; [lia | exact W] | exact E]|].
      intros [|j q] P' E'; [destruct P' as [[] _]|]. change (right_ (j :: q)) with (to (j + n :: q)) in E'.
      apply D in E'.
      * destruct P' as [[J _] _]. injection E' as E' _. lia.
      * apply Ay, P'.
      * apply Ax. split; [split; [lia | exact W] | exact E].
    + assert (P : inside y (m :: shape) (i - n :: r)) by (split; [split; [lia | exact W] | exact E]).
      specialize (V' _ P). change (right_ (i - n :: r)) with (to (i - n + n :: r)) in V'.
      pose proof (Away _ _ P) as K.
      replace (i - n + n) with i in V', K by lia. rewrite V', K. reflexivity.
  - intros q A. rewrite Q'; [apply Q; intros p P; apply A, Ax, P|].
    intros [|i r] P; [destruct P as [[] _]|]. apply A, Ay, P.
Qed.

Lemma select_correct b x y : correct x -> correct y -> correct (Select b x y).
Proof.
  intros IHx IHy used k shape v u cells to adding s [Fx Fy] U [Ox Oy] H D S. cbn [lower block fold_right].
  change (run (Then (When ?b ?a) (Then (When (negb ?b) ?c) Skip)) s) with
    (if negb b then run c (if b then run a s else s) else (if b then run a s else s)).
  destruct b; cbn [negb].
  - apply (IHx used k shape v u cells to adding s Fx U (Ox eq_refl) H D).
    intros A. destruct (S A) as [[Y _]|]; [left; exact (Y eq_refl) | right; assumption].
  - apply (IHy used k shape v u cells to adding s Fy U (Oy eq_refl) H D).
    intros A. destruct (S A) as [[_ Y]|]; [left; exact (Y eq_refl) | right; assumption].
Qed.
Lemma leaf_correct x : correct (Leaf x).
Proof.
  intros used k shape v u cells to adding s F U [-> O] H D S. cbn [lower block fold_right].
  change (run (Then ?a Skip) s) with (run a s). split.
  - intros [|? ?] [W _]; [| contradiction W]. rewrite store_here, (leaf_value k v s x H O). reflexivity.
  - intros q A. apply store_elsewhere. apply A. split; [exact I | reflexivity].
Qed.
Lemma zeros_correct shape : correct (zeros_term shape).
Proof. induction shape; [apply leaf_correct | apply gen_correct; auto]. Qed.
(* Lowering is correct: the nest stores the meaning of a term in its cells, and changes no other cell. *)
Theorem lower_correct e : correct e.
Proof.
  term_induction e.
  - apply leaf_correct.
  - exact (gen_correct lo hi e IH).
  - destruct variable as [r|]; [exact (variable_correct r lo hi e IH)|].
    intros used k shape v u cells to adding s F U [_ O] H D S. cbn [lower block fold_right].
    change (run (Then ?a Skip) s) with (run a s).
    destruct (sum_correct lo hi e IH used k shape v u cells to s F U O H D) as [V Q]. split; [| exact Q].
    intros p P. rewrite V by exact P. destruct adding; [reflexivity|].
    destruct (S eq_refl) as [[]|Z]. rewrite Z by exact P. cbn [meaning]. unfold reduce. ring.
  - intros used k shape v u cells to adding s F U O H D S. cbn [lower block fold_right].
    change (run (Then (When ?b ?a) Skip) s) with (if b then run a s else s). destruct b.
    + apply (IH used k shape v u cells to adding s F U (O eq_refl) H D).
      intros A. destruct (S A) as [Y|]; [left; exact (Y eq_refl) | right; assumption].
    + split; [intros p [_ P]; discriminate P | reflexivity].
  - intros used k shape v u cells to adding s F U [-> O] H D S.
    assert (C : computes (Select b e (zeros_term shape)) shape v u to adding s
      (run (block (lower (Filled b shape e) u cells to adding)) s)).
    { cbn [lower]. rewrite <- zeros_lower.
      apply (select_correct b e (zeros_term shape) IH (zeros_correct shape) used k); auto.
      - split; [exact F | apply zeros_fresh].
      - split; [exact O | intros _; apply zeros_ok].
      - intros p q [W P] [W' Q]. cbn [stored] in P, Q. apply D; split; auto; cbn; destruct b; auto.
      - intros A. destruct (S A) as [Y|Z]; [left; split; [exact Y | intros _; apply zeros_assigned] | right].
        intros p [W P]. apply Z. split; [exact W | cbn in *; destruct b; auto]. }
    destruct C as [V Q]. split.
    + intros p [W P]. rewrite V.
      * cbn [meaning]. unfold select, guard. destruct b; [reflexivity|]. rewrite zeros_value by exact W. reflexivity.
      * split; [exact W|]. cbn in *. destruct b; [exact P | apply zeros_stored, W].
    + intros q N. apply Q. intros p [W P]. apply N. split; [exact W | cbn in *; destruct b; auto].
  - exact (select_correct b x y IHx IHy).
  - exact (bind_correct v own h x e IHx IHe).
  - exact (reserve_correct m capacity before after e IH).
  - exact (reshape_correct o e IH).
  - exact (concat_correct n m x y IHx IHy).
Qed.

(* -- safety ------------------------------------------------------------------------------------------------------- *)
Lemma begun_app e a b : begun e (block (a ++ b)) = begun (begun e (block a)) (block b).
Proof. revert e. induction a as [|c a IH]; intros e; [reflexivity | apply IH]. Qed.
Lemma safe_app e a b : safe e (block a) -> safe (begun e (block a)) (block b) -> safe e (block (a ++ b)).
Proof.
  revert e. induction a as [|c a IH]; intros e A B; [exact B|]. destruct A as [C A]. split; [exact C | apply IH;
    assumption].
Qed.
Lemma lasting_block e l : lasting e (block l) <-> Forall (lasting e) l.
Proof.
  induction l as [|c l IH]; cbn; [split; auto|]. rewrite IH. split; [intros []; auto | intros H; inversion H; auto].
Qed.
Definition unused (used : list Z) (e : Z -> list Z) : Prop := forall w, ~ In w used -> e w = [].
Lemma unused_more used v e : unused used e -> unused (v :: used) e.
Proof. intros H w N. apply H. intros I. apply N. right. exact I. Qed.
Lemma zeros_last live shape : forall u cells to adding, Forall (lasting live) (zeros_in shape u cells to adding).
Proof.
  induction shape as [|n shape IH]; intros; cbn [zeros_in]; repeat constructor; [destruct adding; exact I|].
  cbn. intros i. apply lasting_block, IH.
Qed.
Lemma lower_lasts e live : forall used u cells to adding, fresh used e -> unused used live ->
  Forall (lasting live) (lower e u cells to adding).
Proof.
  term_induction e;
    cbn [fresh lower]; intros used u cells to adding F N.
  - destruct adding; repeat constructor.
  - repeat constructor. cbn. intros i. apply lasting_block. eauto.
  - destruct variable as [r|].
    + destruct F as [_ F]. repeat constructor; [| destruct adding; exact I].
      cbn. intros i. apply lasting_block. eauto using unused_more.
    + repeat constructor. cbn. intros i. apply lasting_block. eauto.
  - repeat constructor. cbn. apply lasting_block. eauto.
  - repeat constructor; cbn; apply lasting_block; [eauto | apply zeros_last].
  - destruct F. repeat constructor; cbn; apply lasting_block; eauto.
  - destruct F as (V & X & E). repeat (apply Forall_app; split); eauto using unused_more.
    + destruct h as [[]| |]; repeat constructor; cbn; auto.
    + destruct h; repeat constructor; cbn; auto.
  - destruct F as [V F]. constructor; [cbn; auto|]. apply Forall_app.
    split; [eauto using unused_more | repeat constructor; cbn; auto].
  - eauto.
  - destruct F. apply Forall_app. split; eauto.
Qed.
Lemma with_begun used v own live : unused used live -> unused (v :: used) (fun w => if w =? v then own else live w).
Proof.
  intros N w K. destruct (Z.eqb_spec w v); [subst; contradiction K; left; reflexivity|].
  apply N. intros J. apply K. right. exact J.
Qed.
Lemma begun_and_freed v own (live : Z -> list Z) : live v = [] ->
  (fun w => if w =? v then [] else if w =? v then own else live w) = live.
Proof. intros N. apply functional_extensionality. intros w. destruct (Z.eqb_spec w v); subst; auto. Qed.
Lemma lower_begins_nothing e : forall live used u cells to adding, fresh used e -> unused used live ->
  begun live (block (lower e u cells to adding)) = live.
Proof.
  term_induction e;
    cbn [fresh lower]; intros live used u cells to adding F N; try reflexivity.
  - destruct adding; reflexivity.
  - destruct variable; [destruct adding|]; reflexivity.
  - destruct F as (V & X & E). rewrite !begun_app. destruct h as [[]| |]; cbn [begins ends_with block fold_right begun].
    1, 2: rewrite (IHx live (v :: used)), (IHe live (v :: used)); auto using unused_more.
    all: rewrite (IHx _ (v :: used)), (IHe _ (v :: used)) by auto using with_begun; apply begun_and_freed; auto.
  - destruct F as [V F]. cbn [block fold_right begun]. fold (block (lower e u cells to adding ++
      [Storage m [] 1 (Freed [capacity]) after])). rewrite begun_app, (IH _ (m :: used)) by auto using with_begun.
    apply begun_and_freed; auto.
  - eauto.
  - destruct F. rewrite begun_app. rewrite (IHx live used), (IHy live used); auto.
Qed.
Lemma leaf_safe k live x : (forall w own, In (w, own) k -> own = [] \/ live w = own) -> ok_leaf k x ->
  safe_value live (lower_leaf x).
Proof.
  intros H. induction x; cbn [ok_leaf lower_leaf safe_value]; intros O; try exact I.
  - split; [reflexivity | exact O].
  - destruct O as [J W]. repeat split; [exact (H _ _ J) | exact W].
  - auto.
  - destruct O. auto.
  - auto.
  - destruct O. auto.
Qed.
Lemma store_safe adding live u cells p x : cells = [] \/ live u = cells -> within cells p -> safe_value live x ->
  safe live (store adding u cells p x).
Proof. intros. destruct adding; cbn; repeat split; assumption. Qed.
Lemma zeros_safe live shape : forall u cells to adding, cells = [] \/ live u = cells ->
  (forall p, within shape p -> within cells (to p)) -> safe live (block (zeros_in shape u cells to adding)).
Proof.
  induction shape as [|n shape IH]; intros u cells to adding C W; cbn [zeros_in block fold_right].
  - split; [| exact I]. apply store_safe; [exact C | apply W; exact I | exact I].
  - split; [| exact I]. intros i. split; [| apply lasting_block, zeros_last].
    intros J. apply IH; [exact C|]. intros p P. apply W. split; [lia | exact P].
Qed.
Theorem lower_safe e : forall used k shape u cells to adding live,
  fresh used e -> in_use used k u -> ok k e shape -> unused used live -> cells = [] \/ live u = cells ->
  (forall w own, In (w, own) k -> own = [] \/ live w = own) -> (forall p, inside e shape p -> within cells (to p)) ->
  safe live (block (lower e u cells to adding)).
Proof.
  term_induction e;
    intros used k shape u cells to adding live F U O N C L W; cbn [lower block fold_right].
  - destruct O as [-> O]. split; [| exact I]. apply store_safe; [exact C | apply W; split; [exact I | reflexivity]|].
    eapply leaf_safe; eauto.
  - destruct shape as [|n shape]; [contradiction O|]. destruct O as [-> O]. split; [| exact I]. cbn [safe].
    intros i. split; [| apply lasting_block, lower_lasts with used; auto].
    intros J. apply (IH i used k shape); auto. intros p [P E]. apply W. split.
    + split; [lia | exact P].
    + cbn [stored]. replace (lo + (i - lo)) with i by lia. exact E.
  - destruct variable as [r|].
    + destruct O as [-> O], F as [V F].
      assert (J : in_use (r :: used) k r).
      { split; [left; reflexivity|]. intros w own J. split; [right; eapply U; eauto | intros ->; apply V; eapply U;
        eauto]. }
      assert (K : in_range live r [] [] []) by (repeat split; left; reflexivity).
      split; [split; [exact K | exact I] | split; [| split; [| exact I]]].
      * cbn [safe begun]. intros i. split; [| apply lasting_block, lower_lasts with (r :: used);
        auto using unused_more].
        intros ?. apply (IH i (r :: used) k []); auto using unused_more. intros p [P _]. exact P.
      * apply store_safe; [exact C | apply W; split; [exact I | reflexivity] | exact K].
    + destruct O as [_ O]. split; [| exact I]. cbn [safe]. intros i.
      split; [| apply lasting_block, lower_lasts with used; auto].
      intros J. apply (IH i used k shape); auto. intros p P. apply W, (inside_sum lo hi e i); assumption.
  - split; [| exact I]. cbn [safe]. split; [| apply lasting_block, lower_lasts with used; auto].
    intros ->. apply (IH used k shape); auto.
  - destruct O as [-> O]. split; [| split; [| exact I]]; cbn [safe begun]; split;
      try (apply lasting_block; first [apply zeros_last | apply lower_lasts with used; auto]).
    + intros ->. apply (IH used k shape); auto.
    + intros B. apply zeros_safe; [exact C|]. intros p P. apply W. split; [exact P|].
      cbn. destruct b; [discriminate | reflexivity].
  - destruct F as [Fx Fy], O as [Ox Oy]. split; [| split; [| exact I]]; cbn [safe begun]; split;
      try (apply lasting_block, lower_lasts with used; auto).
    + intros ->. apply (IHx used k shape); auto.
    + intros B. destruct b; [discriminate|]. apply (IHy used k shape); auto.
  - destruct F as (V & Fx & Fe), O as (Ox & Oe & A).
    set (more := begun live (block (begins v own h))).
    assert (Mv : own = [] \/ more v = own).
    { subst more. destruct h; [left; apply A | right..]; cbn; rewrite Z.eqb_refl; reflexivity. }
    assert (Mw : forall w, w <> v -> more w = live w).
    { intros w D. subst more. destruct h as [[]| |]; try reflexivity; cbn;
        (destruct (Z.eqb_spec w v); [contradiction | reflexivity]). }
    assert (M : unused (v :: used) more).
    { intros w K. rewrite Mw by (intros ->; apply K; left; reflexivity). apply N. intros J. apply K. right. exact J. }
    assert (Kv : forall w sh, In (w, sh) k -> w <> v) by (intros w sh J ->; apply V; eapply U; eauto).
    assert (Nu : u <> v) by (intros ->; apply V, U).
    apply safe_app; [| fold more; apply safe_app; [| apply safe_app]].
    + destruct h as [[]|zeroed count before after|zeroed count m capacity before after];
        [split; [repeat split; left; reflexivity | exact I] | exact I | |].
      * destruct A as [-> _]. cbn. repeat split; lia.
      * destruct A as [(J & Q & ->) _]. cbn. destruct (L m [capacity] J) as [B|B]; [discriminate B|].
        repeat split; [lia | exact B | exact Q].
    + apply (IHx (v :: used) k own); auto.
      * split; [left; reflexivity|]. intros w sh J. split; [right; eapply U; eauto | eauto].
      * intros w sh J. rewrite Mw by eauto. eauto.
      * intros p [P _]. exact P.
    + rewrite (lower_begins_nothing x more (v :: used)) by assumption.
      apply (IHe (v :: used) ((v, own) :: k) shape); auto.
      * split; [right; apply U|]. intros w sh [[= <- <-]|J]; [split; [left; reflexivity | auto]|].
        split; [right|]; eapply U; eauto.
      * rewrite Mw by exact Nu. exact C.
      * intros w sh [[= <- <-]|J]; [exact Mv | rewrite Mw by eauto; eauto].
    + rewrite (lower_begins_nothing x more (v :: used)), (lower_begins_nothing e more (v :: used)) by assumption.
      destruct h; [exact I | |]; cbn; repeat split; try lia; subst more; cbn; rewrite Z.eqb_refl; reflexivity.
  - destruct F as [V F]. set (more := fun w => if w =? m then [capacity] else live w).
    assert (M : unused (m :: used) more) by (apply with_begun, N).
    assert (Mw : forall w, w <> m -> more w = live w).
    { intros w D. subst more. cbv beta. destruct (Z.eqb_spec w m); [contradiction | reflexivity]. }
    assert (Km : forall w sh, In (w, sh) k -> w <> m) by (intros w sh J ->; apply V; eapply U; eauto).
    assert (Nu : u <> m) by (intros ->; apply V, U).
    assert (Mm : more m = [capacity]) by (subst more; cbv beta; rewrite Z.eqb_refl; reflexivity).
    split; [cbn; repeat split; lia|]. cbn [begun]. fold more.
    fold (block (lower e u cells to adding ++ [Storage m [] 1 (Freed [capacity]) after])). apply safe_app.
    + apply (IH (m :: used) ((m, [capacity]) :: k) shape); auto.
      * split; [right; apply U|]. intros w sh [[= <- <-]|J]; [split; [left; reflexivity | auto]|].
        split; [right|]; eapply U; eauto.
      * rewrite Mw by exact Nu. exact C.
      * intros w sh [[= <- <-]|J]; [right; exact Mm | rewrite Mw by eauto; eauto].
    + rewrite (lower_begins_nothing e more (m :: used)) by assumption. cbn. repeat split; [lia | exact Mm].
  - destruct O as (A & O & T). apply (IH used k (operand o shape)); auto. intros p [P E].
    destruct (moved_back o shape p A P (T p P E)) as (P' & R & B). apply W. split; [exact P'|].
    cbn. rewrite R, B. exact E.
  - destruct shape as [|a shape]; [contradiction O|]. destruct O as (-> & Hn & Hm & Ox & Oy), F as [Fx Fy].
    apply safe_app; [| rewrite (lower_begins_nothing x live used) by assumption].
    + apply (IHx used k (n :: shape)); auto. intros [|i r] [P E]; [contradiction P|]. destruct P as [J P].
      apply (W (i :: r)).
      split; [split; [lia | exact P]|]. cbn [stored]. replace (i <? n) with true by lia. exact E.
    + apply (IHy used k (m :: shape)); auto. intros [|i r] [P E]; [contradiction P|]. destruct P as [J P].
      apply (W (i + n :: r)).
      split; [split; [lia | exact P]|]. cbn [stored]. replace (i + n <? n) with false by lia.
      replace (i + n - n) with i by lia. exact E.
Qed.

(* -- kernels ------------------------------------------------------------------------------------------------------ *)
(* The nest of a program whose output is storage u, filled with zeros first if it has a `count` of elements. *)
Definition kernel (e : term) (u : Z) (shape : list Z) (count : option Z) : list statement :=
  match count with Some count => [Storage u shape count (Own count) zeros] | None => [] end ++
  lower e u shape (fun p => p) false.
Definition fills_all (e : term) (shape : list Z) (count : option Z) : Prop :=
  match count with
  | Some count => count = size shape
  | None => assigned e /\ forall p, within shape p -> stored e p = true
  end.
Definition nothing : environment := fun _ _ => zero.
Section Kernel.
Variables (e : term) (u : Z) (shape : list Z) (count : option Z).
Hypotheses (F : fresh [u] e) (O : ok [] e shape) (A : fills_all e shape count).
Lemma output_in_use : in_use [u] [] u.
Proof. split; [left; reflexivity | intros ? ? []]. Qed.
Theorem kernel_safe : safe (only u shape) (block (kernel e u shape count)).
Proof.
  assert (H : unused [u] (only u shape)).
  { intros w N. unfold only. destruct (Z.eqb_spec w u); [subst; contradiction N; left; reflexivity | reflexivity]. }
  assert (only u shape u = shape) by (unfold only; rewrite Z.eqb_refl; reflexivity).
  assert (L : safe (only u shape) (block (lower e u shape (fun p => p) false))).
  { apply (lower_safe e [u] [] shape); auto using output_in_use; [intros ? ? [] | intros p [W _]; exact W]. }
  destruct count as [cells|]; [| exact L]. cbn [fills_all] in A. subst cells. split; [cbn; lia|].
  replace (begun _ _) with (only u shape); [exact L|].
  apply functional_extensionality. intros w. cbn. unfold only. destruct (w =? u); reflexivity.
Qed.
Theorem kernel_fills : fills [] (block (kernel e u shape count)) u shape (meaning nothing e).
Proof.
  intros s _ p W. unfold kernel. rewrite run_app.
  set (s1 := run (block (match count with Some cells => _ | None => [] end)) s).
  assert (Z : assigned e /\ (forall p, within shape p -> stored e p = true) \/ forall p, s1 u p = zero).
  { destruct count; [right | left; exact A]. intros q. subst s1. cbn. rewrite Z.eqb_refl. reflexivity. }
  destruct (lower_correct e [u] [] shape nothing u shape (fun p => p) false s1) as [V Q]; auto using output_in_use.
  - intros ? ? [].
  - intros q r _ _ E. exact E.
  - intros _. destruct Z as [[Z _]|Z]; [left; exact Z | right; auto].
  - destruct (stored e p) eqn:E; [apply V; split; assumption|].
    rewrite (padding_is_zero e [] nothing shape p O W E). rewrite Q; [| intros q [_ S] ->; congruence].
    destruct Z as [[_ Z]|Z]; [rewrite Z in E by exact W; discriminate | apply Z].
Qed.
End Kernel.

(* -- a nest that agrees with a lowered term ------------------------------------------------------------------------ *)
(* The same statements, up to the form of indices and conditions in the range of the loops around them. *)
Fixpoint lasts_alike (c d : statement) : Prop :=
  match c, d with
  | Then a b, Then a' b' => lasts_alike a a' /\ lasts_alike b b'
  | When _ a, When _ a' => lasts_alike a a'
  | For _ _ f, For _ _ g => forall i, lasts_alike (f i) (g i)
  | Storage u shape _ _ _, Storage v own _ _ _ => u = v /\ shape = own
  | _, (Then _ _ | When _ _ | For _ _ _ | Storage _ _ _ _ _) => False
  | _, _ => True
  end.
Fixpoint agrees (c d : statement) : Prop :=
  match c, d with
  | Then a b, Then a' b' => agrees a a' /\ agrees b b'
  | When b a, When b' a' => b = b' /\ (b = true -> agrees a a') /\ lasts_alike a a'
  | For lo hi f, For lo' hi' g =>
      lo = lo' /\ hi = hi' /\ forall i, (lo <= i < hi -> agrees (f i) (g i)) /\ lasts_alike (f i) (g i)
  | _, _ => c = d
  end.
Lemma alike_lasts live c d : lasts_alike c d -> lasting live c -> lasting live d.
Proof.
  revert d. induction c as [|a IHa b IHb|b a IH|lo hi body IH| | |u shape n m holds| |]; intros d; destruct d; cbn;
    try tauto.
  - intros [] []. auto.
  - auto.
  - intros A L i. apply (IH i); auto.
  - intros [-> ->]. exact id.
Qed.
Lemma agrees_begun live c d : agrees c d -> begun live c = begun live d.
Proof.
  revert live d. induction c as [|a IHa b IHb|b a IH|lo hi body IH| | |u shape n m holds| |];
    intros live d; destruct d; cbn [agrees]; intros A; try discriminate A; try reflexivity; try (injection A;
      intros; subst; reflexivity).
  destruct A as [A B]. cbn. rewrite (IHa live _ A). auto.
Qed.
Lemma agrees_run c d s : agrees c d -> run c s = run d s.
Proof.
  revert d s. induction c as [|a IHa b IHb|b a IH|lo hi body IH| | |u shape n m holds| |];
    intros d s; destruct d; cbn [agrees]; intros A; try discriminate A;
    try reflexivity; try (rewrite A; reflexivity).
  - destruct A as [A B]. cbn. rewrite (IHa _ s A). auto.
  - destruct A as (-> & A & _). cbn. destruct b0; auto.
  - destruct A as (-> & -> & A). cbn.
    assert (H : forall n, (n <= Z.to_nat (hi0 - lo0))%nat ->
      times n (fun k => run (body (lo0 + Z.of_nat k))) s = times n (fun k => run (body0 (lo0 + Z.of_nat k))) s).
    { induction n as [|n IHn]; intros; cbn [times]; [reflexivity|]. rewrite IHn by lia. apply IH, A. lia. }
    apply H. lia.
Qed.
Lemma agrees_safe live c d : agrees c d -> safe live c -> safe live d.
Proof.
  revert live d. induction c as [|a IHa b IHb|b a IH|lo hi body IH| | |u shape n m holds| |];
    intros live d; destruct d; cbn [agrees]; intros A; try discriminate A;
    try exact id; try (rewrite A; exact id).
  - destruct A as [A B]. cbn. rewrite (agrees_begun live _ _ A). intros []. auto.
  - destruct A as (-> & A & L). cbn. intros []. split; [auto | eapply alike_lasts; eauto].
  - destruct A as (-> & -> & A). cbn. intros S i. destruct (A i), (S i).
    split; [intros ?; apply (IH i); auto | eapply alike_lasts; eauto].
Qed.
Theorem lowered_nest e u shape count c : fresh [u] e -> ok [] e shape -> fills_all e shape count ->
  agrees (block (kernel e u shape count)) c -> safe (only u shape) c /\ fills [] c u shape (meaning nothing e).
Proof.
  intros F O A H. split; [exact (agrees_safe _ _ _ H (kernel_safe e u shape count F O A))|].
  intros s K p W. rewrite <- (agrees_run _ _ s H). exact (kernel_fills e u shape count F O A s K p W).
Qed.

(* -- tactics for the proof of a nest ------------------------------------------------------------------------------- *)
Ltac each_claim := repeat lazymatch goal with
  | |- True => exact I
  | |- _ /\ _ => split
  | |- ~ _ => intros ?; lia
  | |- _ \/ _ => first [left; reflexivity | right]
  | |- (_, _) = (_, _) => reflexivity
  | |- @eq (list _) _ _ => first [reflexivity | same_term]
  | |- @eq bool _ _ -> _ => intros ?
  | |- forall _ : Z, _ => intro
  | |- _ <= _ < _ -> _ => intros ? end.
(* Facts about stored elements: of a sum, those of some iteration. *)
Ltac at_stored := cbn [stored origin present kept_by] in *; repeat match goal with
  | H : exists_in _ _ _ = true |- _ => apply exists_in_range in H; destruct H as (? & ? & H); cbv beta in H
  | H : (_ && _)%bool = true |- _ => apply andb_prop in H; destruct H
  | H : context [if ?b then _ else _] |- _ => destruct b eqn:? end.
Ltac of_elements := intros; apart_lists; at_stored; repeat match goal with
  | |- context [if ?b then _ else _] => destruct b eqn:? end; first [reflexivity | known].
Ltac claims := each_claim; lazymatch goal with |- forall _ : list Z, _ => of_elements | |- _ => known end.
Ltac fresh_storage := cbn [fresh In]; each_claim.
Ltac well_formed := cbn [ok ok_leaf fits operand holds_all within In assigned size fold_right]; claims.
Ltac filled_all := cbn [fills_all assigned size fold_right]; claims.
Ltac same_statements := cbv beta iota zeta delta
  [kernel lower lower_leaf zeros_in store begins ends_with moved block fold_right app zeros];
  cbn [agrees lasts_alike]; each_claim; first [reflexivity | lia | same_term].
(* The value of a term and that of a program, which differ at most by conditions and zeros. *)
Ltac same_value := first [ reflexivity
  | cbv beta iota zeta delta [meaning meaning_of_leaf element reshaped nothing extend Z.eqb Pos.eqb]; by_value ].
End Make.
