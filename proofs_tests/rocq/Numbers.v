(* The integers as scalars: with them Rocq computes what a program means, to be compared with the reference
   interpreter. What is no operation of integers stands for something else that has the same laws. *)
Require Import Meaning.

Module Integers <: SCALARS.
  Definition scalar : Type := Z.
  Definition zero : scalar := 0.
  Definition one : scalar := 1.
  Definition add := Z.add.
  Definition mul := Z.mul.
  Definition sub := Z.sub.
  Definition neg := Z.opp.
  Lemma laws : ring_theory zero one add mul sub neg (@eq scalar).
  Proof. split; unfold zero, one, add, mul, sub, neg, scalar; intros; lia. Qed.
  Definition integer (z : Z) : scalar := z.
  Lemma integer_0 : integer 0 = zero. Proof. reflexivity. Qed.
  Lemma integer_1 : integer 1 = one. Proof. reflexivity. Qed.
  Lemma integer_add a b : integer (a + b) = add (integer a) (integer b). Proof. reflexivity. Qed.
  Lemma integer_mul a b : integer (a * b) = mul (integer a) (integer b). Proof. reflexivity. Qed.
  Definition reciprocal (x : scalar) : scalar := x.
  Definition least := Z.min.
  Definition greatest := Z.max.
  Definition least_comm := Z.min_comm.
  Lemma least_assoc a b c : least (least a b) c = least a (least b c). Proof. unfold least. lia. Qed.
  Definition least_same := Z.min_id.
  Definition greatest_comm := Z.max_comm.
  Lemma greatest_assoc a b c : greatest (greatest a b) c = greatest a (greatest b c). Proof. unfold greatest. lia. Qed.
  Definition greatest_same := Z.max_id.
  Definition absolute := Z.abs.
  Definition root (x : scalar) : scalar := x.
  Definition exponential (x : scalar) : scalar := x.
  Definition logarithm (x : scalar) : scalar := x.
  Definition tangent (x : scalar) : scalar := x.
  Lemma absolute_0 : absolute zero = zero. Proof. reflexivity. Qed.
  Lemma root_0 : root zero = zero. Proof. reflexivity. Qed.
  Lemma tangent_0 : tangent zero = zero. Proof. reflexivity. Qed.
  Definition convert (_ : string) (x : scalar) : scalar := x.
End Integers.

Module Computed := Meaning.Make Integers.

(* An array of these extents, by its elements in order. *)
Fixpoint flat (at_ : Z) (shape p : list Z) : Z :=
  match shape, p with n :: shape, i :: p => flat (at_ * n + i) shape p | _, _ => at_ end.
Definition array (shape elements : list Z) (p : list Z) : Z := nth (Z.to_nat (flat 0 shape p)) elements 0.
