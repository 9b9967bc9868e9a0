(* What programs mean: all that has to be believed of this folder, beside the printing of two programs.

   A tensor is a function from a list of positions to scalars. Its extents stand beside it, as index expressions: an
   operator that needs one takes it as an argument. What an operator does not look at is the rest of the list, so one
   definition serves every rank. Padding, and an access outside, read as zero. *)
From Coq Require Export ZArith List Lia Bool String Ring FunctionalExtensionality ZifyBool.
Export ListNotations.
Global Open Scope Z_scope.

(* A commutative ring, the image of the integers in it, and symbols with the laws that the rules of scalars state. *)
Module Type SCALARS.
  Parameter scalar : Type.
  Parameters zero one : scalar.
  Parameters add mul sub : scalar -> scalar -> scalar.
  Parameter neg : scalar -> scalar.
  Parameter laws : ring_theory zero one add mul sub neg (@eq scalar).
  Parameter integer : Z -> scalar.
  Parameter integer_0 : integer 0 = zero.
  Parameter integer_1 : integer 1 = one.
  Parameter integer_add : forall a b, integer (a + b) = add (integer a) (integer b).
  Parameter integer_mul : forall a b, integer (a * b) = mul (integer a) (integer b).
  Parameter reciprocal : scalar -> scalar.
  Parameters least greatest : scalar -> scalar -> scalar.
  Parameter least_comm : forall a b, least a b = least b a.
  Parameter least_assoc : forall a b c, least (least a b) c = least a (least b c).
  Parameter least_same : forall a, least a a = a.
  Parameter greatest_comm : forall a b, greatest a b = greatest b a.
  Parameter greatest_assoc : forall a b c, greatest (greatest a b) c = greatest a (greatest b c).
  Parameter greatest_same : forall a, greatest a a = a.
  Parameters absolute root exponential logarithm tangent : scalar -> scalar.
  Parameter absolute_0 : absolute zero = zero.
  Parameter root_0 : root zero = zero.
  Parameter tangent_0 : tangent zero = zero.
  Parameter convert : string -> scalar -> scalar.
End SCALARS.

Module Make (S : SCALARS).
Export S.
Add Ring scalars : laws.

Definition over (a b : scalar) : scalar := mul a (reciprocal b).
Definition tensor : Type := list Z -> scalar.

(* The fold of f lo, ..., f (hi - 1), from the left. An empty one reads as zero, whatever is folded. *)
Fixpoint first (op : scalar -> scalar -> scalar) (f : nat -> scalar) (n : nat) : scalar :=
  match n with
  | O => zero
  | Datatypes.S O => f O
  | Datatypes.S m => op (first op f m) (f m)
  end.
Definition fold op (lo hi : Z) (f : Z -> scalar) : scalar :=
  first op (fun k => f (lo + Z.of_nat k)) (Z.to_nat (hi - lo)).

Definition gen (lo : Z) (e : Z -> tensor) : tensor :=
  fun p => match p with i :: r => e (lo + i) r | [] => zero end.
Definition reduce op (lo hi : Z) (e : Z -> tensor) : tensor := fun p => fold op lo hi (fun k => e k p).
Definition guard (b : bool) (e : tensor) : tensor := fun p => if b then e p else zero.
Definition bind (x : tensor) (e : tensor -> tensor) : tensor := e x.
Definition access (n : Z) (e : tensor) (i : Z) : tensor :=
  fun p => if (0 <=? i) && (i <? n) then e (i :: p) else zero.
Definition unary (g : scalar -> scalar) (e : tensor) : tensor := fun p => g (e p).
Definition binary (g : scalar -> scalar -> scalar) (a b : tensor) : tensor := fun p => g (a p) (b p).
Definition select (b : bool) (x y : tensor) : tensor := fun p => if b then x p else y p.
Definition literal (c : scalar) : tensor := fun _ => c.
Definition padding : tensor := fun _ => zero.
Definition integers (a : list Z -> Z) : tensor := fun p => integer (a p).
(* In the following, n is the first extent of (the first) operand, and m the second. *)
Definition concat (n : Z) (a b : tensor) : tensor :=
  fun p => match p with i :: r => if i <? n then a (i :: r) else b (i - n :: r) | [] => zero end.
Definition transpose (e : tensor) : tensor := fun p => match p with i :: j :: r => e (j :: i :: r) | _ => zero end.
Definition flatten (m : Z) (e : tensor) : tensor :=
  fun p => match p with i :: r => e (i / m :: i - m * (i / m) :: r) | [] => zero end.
Definition split (n by_ : Z) (e : tensor) : tensor :=
  fun p => match p with i :: j :: r => if i * by_ + j <? n then e (i * by_ + j :: r) else zero | _ => zero end.
Definition padl (by_ : Z) (e : tensor) : tensor :=
  fun p => match p with i :: r => if by_ <=? i then e (i - by_ :: r) else zero | [] => zero end.
Definition padr (n : Z) (e : tensor) : tensor :=
  fun p => match p with i :: r => if i <? n then e (i :: r) else zero | [] => zero end.
Definition truncl (by_ : Z) (e : tensor) : tensor := fun p => match p with i :: r => e (i + by_ :: r) | [] => zero end.
Definition truncr (e : tensor) : tensor := e.
Definition place (at_ : Z) (e : tensor) : tensor :=
  fun p => match p with i :: r => if i =? at_ then e r else zero | [] => zero end.
End Make.
