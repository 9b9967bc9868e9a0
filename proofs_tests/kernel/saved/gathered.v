Require Import Storing.
Module Certificate (S : SCALARS).
Module Import L := Storing.Make S.

Lemma truncr_flatten_split :
forall (v' : tensor) (k' : Z) (v'0 : Z),
  ((0 <=? v'0) = true) ->
  ((0 <=? (k' - 1)) = true) ->
  ((0 <=? (k' * ((v'0 + k' - 1) / k') - v'0)) = true) ->
  forall (p''0 : Z) (rest : list Z), 0 <= p''0 < v'0 ->
    (truncr (flatten k' (split v'0 k' v'))) (p''0::rest)
    = v' (p''0::rest).
Proof. timeout 30 (time "truncr_flatten_split" by_the_rule). Qed.

Lemma unfold_split :
forall (k' : Z) (v' : tensor) (v'0 : Z),
  ((0 <=? v'0) = true) ->
  ((0 <=? (k' - 1)) = true) ->
  ((0 <=? k') = true) ->
  ((0 <=? ((k' + v'0 - 1) / k')) = true) ->
  forall (p''0 : Z) (p''1 : Z) (rest : list Z), 0 <= p''0 < ((k' + v'0 - 1) / k') -> 0 <= p''1 < k' ->
    (split v'0 k' v') (p''0::p''1::rest)
    = (gen 0 (fun i'1 => (gen 0 (fun j'2 => (guard (0 <=? (- i'1 * k' - j'2 + v'0 - 1)) (access v'0 v' (i'1 * k' + j'2))))))) (p''0::p''1::rest).
Proof. timeout 30 (time "unfold_split" by_the_rule). Qed.

Lemma get_gen :
forall (lo' : Z) (hi' : Z) (e' : Z -> tensor) (k' : Z),
  ((0 <=? k') = true) ->
  ((0 <=? (- lo' + hi' - k' - 1)) = true) ->
  ((0 <=? (- lo' + hi')) = true) ->
  forall (rest : list Z), 
    (access (- lo' + hi') (gen lo' (fun i'1 => (e' i'1))) k') (rest)
    = (e' (lo' + k')) (rest).
Proof. timeout 30 (time "get_gen" by_the_rule). Qed.

Section Programs.
Variable n' : Z.
Variable m' : Z.
Variable A' : tensor.
Variable I' : list Z -> Z.
Hypothesis n'natural : 0 <= n'.
Hypothesis m'natural : 0 <= m'.
Hypothesis I'fact0 : forall p''0 : Z, 0 <= p''0 < n' -> 0 <= I' (p''0::nil).
Hypothesis I'fact1 : forall p''0 : Z, 0 <= p''0 < n' -> I' (p''0::nil) < m'.
Hypothesis I'fact2 : forall p''0 : Z, 0 <= p''0 < n' -> forall q'' : Z, p''0 < q'' < n' -> I' (p''0::nil) < I' (q''::nil).

Definition program_0 : tensor :=
  (gen 0 (fun i'1 => (binary add (access m' (access n' A' i'1) (I' (i'1::nil))) (access m' (access n' A' i'1) (I' (i'1::nil)))))).

Definition program_1 : tensor :=
  (truncr (flatten 8 (split n' 8 (gen 0 (fun i'1 => (binary add (access m' (access n' A' i'1) (I' (i'1::nil))) (access m' (access n' A' i'1) (I' (i'1::nil))))))))).

Definition program_2 : tensor :=
  (truncr (flatten 8 (gen 0 (fun i'1 => (gen 0 (fun j'2 => (guard (0 <=? (n' - 8 * i'1 - j'2 - 1)) (access n' (gen 0 (fun i'3 => (binary add (access m' (access n' A' i'3) (I' (i'3::nil))) (access m' (access n' A' i'3) (I' (i'3::nil)))))) (8 * i'1 + j'2))))))))).

Definition program_3 : tensor :=
  (truncr (flatten 8 (gen 0 (fun i'1 => (gen 0 (fun j'2 => (guard (0 <=? (n' - 8 * i'1 - j'2 - 1)) (binary add (access m' (access n' A' (8 * i'1 + j'2)) (I' ((8 * i'1 + j'2)::nil))) (access m' (access n' A' (8 * i'1 + j'2)) (I' ((8 * i'1 + j'2)::nil))))))))))).

(* truncr_flatten_split, in reverse, at [] *)
Lemma step_0 : forall (p''0 : Z) (rest : list Z), 0 <= p''0 < n' -> program_0 (p''0::rest) = program_1 (p''0::rest).
Proof. timeout 120 (
  intros; unfold program_0, program_1;
  symmetry; let H := fresh in pose proof (truncr_flatten_split (gen 0 (fun i'1 => (binary add (access m' (access n' A' i'1) (I' (i'1::nil))) (access m' (access n' A' i'1) (I' (i'1::nil)))))) 8 n') as H; by_instance H
). Qed.

(* unfold_split, at [0, 0] *)
Lemma step_1 : forall (p''0 : Z) (rest : list Z), 0 <= p''0 < n' -> program_1 (p''0::rest) = program_2 (p''0::rest).
Proof. timeout 120 (
  intros; unfold program_1, program_2;
  apply (down_truncr (8 * ((n' + 7) / 8)) (- n' + 8 * ((n' + 7) / 8))); [known | known | intros x'1 ?]; clear dependent p''0;
  apply (down_flatten ((n' + 7) / 8) 8); [known | known | intros x'3 y'4 ? ? | known]; clear dependent x'1;
  let H := fresh in pose proof (unfold_split 8 (gen 0 (fun i'5 => (binary add (access m' (access n' A' i'5) (I' (i'5::nil))) (access m' (access n' A' i'5) (I' (i'5::nil)))))) n') as H; by_instance H
). Qed.

(* get_gen, at [0, 0, 0, 0, 0] *)
Lemma step_2 : forall (p''0 : Z) (rest : list Z), 0 <= p''0 < n' -> program_2 (p''0::rest) = program_3 (p''0::rest).
Proof. timeout 120 (
  intros; unfold program_2, program_3;
  apply (down_truncr (8 * ((n' + 7) / 8)) (- n' + 8 * ((n' + 7) / 8))); [known | known | intros x'1 ?]; clear dependent p''0;
  apply (down_flatten ((n' + 7) / 8) 8); [known | known | intros x'3 y'4 ? ? | known]; clear dependent x'1;
  apply (down_gen 0 ((n' + 7) / 8)); [known | intros i'5 ?]; clear dependent x'3;
  apply (down_gen 0 8); [known | intros j'6 ?]; clear dependent y'4;
  apply down_guard; intros ?;
  let H := fresh in pose proof (get_gen 0 n' (fun a'7 => (binary add (access m' (access n' A' a'7) (I' (a'7::nil))) (access m' (access n' A' a'7) (I' (a'7::nil))))) (8 * i'5 + j'6)) as H; by_instance H
). Qed.

Theorem certified : forall (p''0 : Z) (rest : list Z), 0 <= p''0 < n' -> program_0 (p''0::rest) = program_3 (p''0::rest).
Proof. intros.
  rewrite step_0 by assumption.
  rewrite step_1 by assumption.
  rewrite step_2 by assumption.
  reflexivity.
Qed.
Lemma as_written : forall (p''0 : Z) (rest : list Z), 0 <= p''0 < n' -> program_3 (p''0::rest) = program_0 (p''0::rest).
Proof.
  intros. symmetry. pose proof certified as equal''.
  repeat lazymatch type of equal'' with _ /\ _ => destruct equal'' as [_ equal''] end.
  apply equal''; assumption.
Qed.

(* The nest of gathered; its output is storage 2. *)
Definition nest : statement :=
(For 0 ((n' + 7) / 8) (fun io'3 =>
(For 0 8 (fun ii'4 =>
(When (0 <=? (n' - 8 * io'3 - ii'4 - 1))
(Then (Look (n'::nil) ((8 * io'3 + ii'4)::nil))
(Assign 2 (n'::nil) (n'::nil) ((8 * io'3 + ii'4)::nil) (Of_two add (Element A' (n'::m'::nil) (n'::m'::nil) ((8 * io'3 + ii'4)::(I' ((8 * io'3 + ii'4)::nil))::nil)) (Element A' (n'::m'::nil) (n'::m'::nil) ((8 * io'3 + ii'4)::(I' ((8 * io'3 + ii'4)::nil))::nil)))))))))).

Lemma nest_safe : safe (only 2 (n'::nil)) nest.
Proof. timeout 300 (unfold nest; safely). Qed.

Lemma nest_fills : fills [] nest 2 (n'::nil) program_0.
Proof.
  unfold nest.
  apply fills_writing.
  {
    apply writes_for.
    {
      disjoint.
    }
    intros io'3 ?.
    apply writes_for.
    {
      disjoint.
    }
    intros ii'4 ?.
    apply writes_when. intros ?.
    apply writes_then.
    {
      disjoint.
    }
    {
      apply writes_nothing. disjoint.
    }
    {
      apply writes_assign.
      {
        at_hand.
      }
      {
        first [ solve [unfold program_0; by_value] | rewrite <- as_written by known; unfold program_3; by_value ].
      }
    }
  }
  {
    intros at'' P''. destruct at'' as [|y'100000 at'']; [easy|]; destruct P'' as [? P'']; destruct at''; [clear P'' | easy].
    exists (y'100000 / 8); split; [known | ]; exists (y'100000 - 8 * (y'100000 / 8)); split; [known | ]; split; [holds | ]; right; reached.
  }
Qed.

Theorem lowered : safe (only 2 (n'::nil)) nest /\
  forall (s : state) (p''0 : Z), 0 <= p''0 < n' -> run nest s 2 (p''0::nil) = program_0 (p''0::nil).
Proof.
  split; [exact nest_safe | intros; apply nest_fills; [exact I | cbn [within]; each_part]].
Qed.
End Programs.
Print Assumptions certified.
Print Assumptions lowered.
End Certificate.
