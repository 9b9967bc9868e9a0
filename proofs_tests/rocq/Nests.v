(* What loop nests do: to be believed, as `Meaning.v` is, beside the printing of a nest.

   A nest takes one state to another: what each cell (a buffer, or a scalar variable, and a list of indices) holds. It is
   safe if every index that it loads from or stores to lies within its extent, of storage that is there with these
   extents, storage has room for what is in it, and only what is there is freed. A scalar variable has no extents.
   Storage is named by numbers; inputs are only read. What storage holds that has not been zeroed may be anything. *)
Require Export Congruence.

Fixpoint within (shape p : list Z) : Prop :=
  match shape, p with
  | [], [] => True
  | n :: shape, i :: p => 0 <= i < n /\ within shape p
  | _, _ => False
  end.
Definition size (shape : list Z) : Z := fold_right Z.mul 1 shape.
Fixpoint same (p q : list Z) : bool :=
  match p, q with [], [] => true | i :: p, j :: q => (i =? j) && same p q | _, _ => false end.

Module Make (S : SCALARS).
Module C := Congruence.Make S.
Export C.

Definition state : Type := Z -> list Z -> scalar.
(* The extents by which an address is computed stand beside those of the storage, which they must be. *)
Inductive value : Type :=
  | Number (x : scalar)
  | Element (a : tensor) (shape extents at_ : list Z)
  | Load (u : Z) (shape extents at_ : list Z)
  | Of_one (g : scalar -> scalar) (x : value)
  | Of_two (g : scalar -> scalar -> scalar) (x y : value)
  | Choose (b : bool) (x y : value).
(* The memory that storage is put into: of its own, so large; that of other storage; none, for what had this shape. *)
Inductive memory : Type := Own (room : Z) | Of (v room : Z) | Freed (shape : list Z).
Inductive statement : Type :=
  | Skip
  | Then (a b : statement)
  | When (b : bool) (a : statement)
  | For (lo hi : Z) (body : Z -> statement)
  | Assign (u : Z) (shape extents at_ : list Z) (x : value)
  | Accumulate (g : scalar -> scalar -> scalar) (u : Z) (shape extents at_ : list Z) (x : value)
  | Storage (u : Z) (shape : list Z) (count : Z) (m : memory) (holds : tensor)
  | Look (shape at_ : list Z).  (* an element of an array of integers is read, in an index or a condition *)

Fixpoint eval (s : state) (x : value) : scalar :=
  match x with
  | Number x => x
  | Element a _ _ p => a p
  | Load u _ _ p => s u p
  | Of_one g x => g (eval s x)
  | Of_two g x y => g (eval s x) (eval s y)
  | Choose b x y => if b then eval s x else eval s y
  end.
Definition put (u : Z) (p : list Z) (x : scalar) (s : state) : state :=
  fun v q => if (v =? u) && same q p then x else s v q.
Fixpoint times (n : nat) (f : nat -> state -> state) (s : state) : state :=
  match n with O => s | Datatypes.S m => f m (times m f s) end.
Fixpoint run (c : statement) (s : state) : state :=
  match c with
  | Skip | Look _ _ => s
  | Then a b => run b (run a s)
  | When b a => if b then run a s else s
  | For lo hi body => times (Z.to_nat (hi - lo)) (fun k => run (body (lo + Z.of_nat k))) s
  | Assign u _ _ p x => put u p (eval s x) s
  | Accumulate g u _ _ p x => put u p (g (s u p) (eval s x)) s
  | Storage u _ _ _ holds => fun v q => if v =? u then holds q else s v q
  end.

(* The extents of what storage is for: of what is freed there is nothing left. *)
Definition only (u : Z) (shape : list Z) : Z -> list Z := fun v => if v =? u then shape else [].
Fixpoint begun (e : Z -> list Z) (c : statement) : Z -> list Z :=
  match c with
  | Then a b => begun (begun e a) b
  | Storage u shape _ _ _ => fun v => if v =? u then shape else e v
  | _ => e
  end.
Definition lies (e : Z -> list Z) (u : Z) (shape extents p : list Z) : Prop :=
  (shape = [] \/ e u = shape) /\ extents = shape /\ within shape p.
(* A loop or a branch leaves what was there before it as it was. *)
Fixpoint lasting (e : Z -> list Z) (c : statement) : Prop :=
  match c with
  | Then a b => lasting e a /\ lasting e b
  | When _ a => lasting e a
  | For _ _ body => forall i, lasting e (body i)
  | Storage u shape _ _ _ => e u = [] \/ e u = shape
  | _ => True
  end.
Definition roomy (e : Z -> list Z) (u n : Z) (m : memory) : Prop :=
  match m with Own r => n <= r | Of v r => e v = [r] /\ n <= r | Freed shape => e u = shape end.
Fixpoint safe_value (e : Z -> list Z) (x : value) : Prop :=
  match x with
  | Number _ => True
  | Element _ shape extents p => extents = shape /\ within shape p
  | Load u shape extents p => lies e u shape extents p
  | Of_one _ x => safe_value e x
  | Of_two _ x y => safe_value e x /\ safe_value e y
  | Choose b x y => (b = true -> safe_value e x) /\ (b = false -> safe_value e y)
  end.
Fixpoint safe (e : Z -> list Z) (c : statement) : Prop :=
  match c with
  | Skip => True
  | Then a b => safe e a /\ safe (begun e a) b
  | When b a => (b = true -> safe e a) /\ lasting e a
  | For lo hi body => forall i, (lo <= i < hi -> safe e (body i)) /\ lasting e (body i)
  | Assign u shape extents p x | Accumulate _ u shape extents p x => lies e u shape extents p /\ safe_value e x
  | Storage u shape n m _ => size shape <= n /\ roomy e u n m
  | Look shape p => within shape p
  end.
End Make.
