(* Decompression undoes compression (D 7.3, 7.5.3), for each level and, by composition, for every format of levels.

   A level stores, for each of its parents, coordinates below an extent. A position of a parent has a coordinate if
   it is valid, and is a parent of the next level. A pattern chooses what a level stores: a coordinate with a
   nonzero element below it is in the pattern. Positions are computed as in `sparse/levels.py`. *)
From Coq Require Import FinFun.
Require Export Lemmas.

(* -- levels ------------------------------------------------------------------------------------------------------ *)
(* The functions of positions of an encoded level. `entry` is the parent and the coordinate of a position. *)
Record structure : Type := {
  low : Z -> Z; high : Z -> Z; coordinate : Z -> Z -> Z; position : Z -> Z -> Z; valid : Z -> Z -> bool;
  entry : Z -> Z * Z; number : Z }.
Definition pattern : Type := Z -> Z -> bool.
(* A level encodes a pattern of some parents and an extent, if there is space for it. *)
Record level : Type := { encode : Z -> Z -> pattern -> structure; has_space : Z -> Z -> pattern -> Prop }.

Record sound (parents extent : Z) (stored : pattern) (m : structure) : Prop := {
  is_entry : forall r p, 0 <= r < parents -> low m r <= p < high m r -> valid m r p = true ->
    0 <= position m r p < number m /\ entry m (position m r p) = (r, coordinate m r p);
  is_unique : forall r p q, 0 <= r < parents -> low m r <= p < high m r -> low m r <= q < high m r ->
    valid m r p = true -> valid m r q = true -> coordinate m r p = coordinate m r q -> p = q;
  is_complete : forall r c, 0 <= r < parents -> 0 <= c < extent -> stored r c = true ->
    exists p, low m r <= p < high m r /\ valid m r p = true /\ coordinate m r p = c }.
Definition level_is_sound (l : level) : Prop := forall parents extent stored, 0 <= parents -> 0 <= extent ->
  has_space l parents extent stored -> sound parents extent stored (encode l parents extent stored).

Definition always (_ _ : Z) (_ : pattern) : Prop := True.
Definition dense : level := {| has_space := always; encode := fun parents n _ =>
  {| low := fun _ => 0; high := fun _ => n; coordinate := fun _ p => p; position := fun r p => r * n + p;
     valid := fun _ _ => true; entry := fun q => (q / n, q - n * (q / n)); number := parents * n |} |}.
Definition bitmask : level := {| has_space := always; encode := fun parents n stored =>
  {| low := fun _ => 0; high := fun _ => n; coordinate := fun _ p => p; position := fun r p => r * n + p;
     valid := stored; entry := fun q => (q / n, q - n * (q / n)); number := parents * n |} |}.
(* The coordinates of a parent follow those of the parent before. *)
Definition range (n : Z) : list Z := map Z.of_nat (seq 0 (Z.to_nat n)).
Definition row (n : Z) (stored : pattern) (r : Z) : list (Z * Z) := map (pair r) (filter (stored r) (range n)).
Definition rows_before (n : Z) (stored : pattern) (r : Z) : list (Z * Z) := flat_map (row n stored) (range r).
Definition compressed : level := {| has_space := always; encode := fun parents n stored =>
  let entries := rows_before n stored parents in
  let bound r := Z.of_nat (List.length (rows_before n stored r)) in
  let at_ p := nth (Z.to_nat p) entries (0, 0) in
  {| low := bound; high := fun r => bound (r + 1); coordinate := fun _ p => snd (at_ p); position := fun _ p => p;
     valid := fun _ _ => true; entry := at_; number := bound parents |} |}.
(* Each parent has a table of `width` slots, some of which are free. The slots may be chosen in any way. *)
Definition hash (width : Z) (slot : Z -> Z -> Z) : level :=
  {| has_space := fun parents n stored => 0 <= width /\
       (forall r c, 0 <= r < parents -> 0 <= c < n -> stored r c = true -> 0 <= slot r c < width) /\
       (forall r c d, 0 <= r < parents -> 0 <= c < n -> 0 <= d < n -> stored r c = true -> stored r d = true ->
          slot r c = slot r d -> c = d);
     encode := fun parents n stored =>
       let at_ r p := match find (fun c => stored r c && (slot r c =? p)) (range n) with Some c => c | None => -1 end in
       {| low := fun _ => 0; high := fun _ => width; coordinate := at_; position := fun r p => r * width + p;
          valid := fun r p => 0 <=? at_ r p;
          entry := fun q => (q / width, at_ (q / width) (q - width * (q / width))); number := parents * width |} |}.

Lemma in_range n i : In i (range n) <-> 0 <= i < n.
Proof.
  unfold range. rewrite in_map_iff. split.
  - intros (k & <- & K). apply in_seq in K. lia.
  - intros I. exists (Z.to_nat i). split; [lia | apply in_seq; lia].
Qed.
Lemma row_position parents n r p : 0 <= r < parents -> 0 <= p < n ->
  0 <= r * n + p < parents * n /\ (r * n + p) / n = r /\ r * n + p - n * ((r * n + p) / n) = p.
Proof.
  intros R P. assert (E : (r * n + p) / n = r) by (symmetry; apply (Z.div_unique _ _ _ p); lia).
  rewrite E. repeat split; nia.
Qed.
Theorem dense_sound : level_is_sound dense.
Proof.
  intros parents n stored ? ? _. split; cbn -[Z.mul Z.div].
  - intros r p R P _. destruct (row_position parents n r p R P) as (? & E & M). split; [assumption | congruence].
  - auto.
  - intros r c R C _. exists c. auto.
Qed.
Theorem bitmask_sound : level_is_sound bitmask.
Proof.
  intros parents n stored ? ? _. split; cbn -[Z.mul Z.div].
  - intros r p R P _. destruct (row_position parents n r p R P) as (? & E & M). split; [assumption | congruence].
  - auto.
  - intros r c R C S. exists c. auto.
Qed.

Lemma range_parts n r : 0 <= r < n -> exists after, range n = range r ++ r :: after.
Proof.
  intros R. unfold range. exists (map Z.of_nat (seq (S (Z.to_nat r)) (Z.to_nat n - S (Z.to_nat r)))).
  replace (Z.to_nat n) with (Z.to_nat r + S (Z.to_nat n - S (Z.to_nat r)))%nat at 1 by lia.
  rewrite seq_app, map_app. f_equal. cbn [seq map]. f_equal. lia.
Qed.
Lemma range_next r : 0 <= r -> range (r + 1) = range r ++ [r].
Proof.
  intros R. unfold range. replace (Z.to_nat (r + 1)) with (Z.to_nat r + 1)%nat by lia.
  rewrite seq_app, map_app. cbn. repeat f_equal. lia.
Qed.
Lemma range_distinct n : NoDup (range n).
Proof. unfold range. apply Injective_map_NoDup; [intros a b; lia | apply seq_NoDup]. Qed.
Lemma row_distinct n stored r : NoDup (row n stored r).
Proof.
  unfold row. apply Injective_map_NoDup; [intros a b [= ->]; reflexivity | apply NoDup_filter, range_distinct].
Qed.
Lemma in_row n stored r a c : In (a, c) (row n stored r) <-> a = r /\ 0 <= c < n /\ stored r c = true.
Proof.
  unfold row. rewrite in_map_iff. setoid_rewrite filter_In. setoid_rewrite in_range. split.
  - intros (d & [= -> ->] & ? & ?). auto.
  - intros (-> & ? & ?). eauto.
Qed.
(* The positions of a parent are those of its row among all entries. *)
Lemma row_of_parent n stored parents r p : 0 <= r < parents ->
  Z.of_nat (List.length (rows_before n stored r)) <= p < Z.of_nat (List.length (rows_before n stored (r + 1))) ->
  exists k, (k < List.length (row n stored r))%nat /\ p = Z.of_nat (List.length (rows_before n stored r) + k) /\
    nth (Z.to_nat p) (rows_before n stored parents) (0, 0) = nth k (row n stored r) (0, 0) /\
    0 <= p < Z.of_nat (List.length (rows_before n stored parents)).
Proof.
  intros R P. unfold rows_before in *. destruct (range_parts parents r R) as [after E].
  rewrite range_next, flat_map_app, app_length in P by lia. cbn [flat_map] in P. rewrite app_nil_r in P.
  set (before := flat_map (row n stored) (range r)) in *.
  exists (Z.to_nat p - List.length before)%nat. rewrite E, flat_map_app. fold before. cbn [flat_map].
  rewrite !app_length. repeat split; try lia.
  rewrite app_nth2, app_nth1 by lia. reflexivity.
Qed.
Theorem compressed_sound : level_is_sound compressed.
Proof.
  intros parents n stored ? ? _. split; cbn -[rows_before].
  - intros r p R P _. destruct (row_of_parent n stored parents r p R P) as (k & K & -> & E & B). rewrite E.
    split; [exact B|]. pose proof (nth_In (row n stored r) (0, 0) K) as I.
    destruct (nth k (row n stored r) (0, 0)) as [a c]. apply in_row in I. destruct I as (-> & _). reflexivity.
  - intros r p q R P Q _ _ S. destruct (row_of_parent n stored parents r p R P) as (k & K & -> & E & _).
    destruct (row_of_parent n stored parents r q R Q) as (j & J & -> & F & _). rewrite E, F in S.
    enough (k = j) by congruence. apply (NoDup_nth (row n stored r) (0, 0)); [apply row_distinct | assumption..|].
    pose proof (nth_In (row n stored r) (0, 0) K) as I. pose proof (nth_In (row n stored r) (0, 0) J) as I'.
    destruct (nth k _ _) as [a c], (nth j _ _) as [b d]. cbn in S. apply in_row in I, I'. destruct I, I'. congruence.
  - intros r c R C S. assert (I : In (r, c) (row n stored r)) by (apply in_row; auto).
    destruct (In_nth _ _ (0, 0) I) as (k & K & E).
    set (p := Z.of_nat (List.length (rows_before n stored r) + k)).
    assert (P : Z.of_nat (List.length (rows_before n stored r)) <= p <
      Z.of_nat (List.length (rows_before n stored (r + 1)))).
    { unfold rows_before at 2. rewrite range_next, flat_map_app, app_length by lia. cbn [flat_map].
      rewrite app_nil_r. fold (rows_before n stored r). lia. }
    exists p. split; [exact P | split; [reflexivity|]].
    destruct (row_of_parent n stored parents r p R P) as (j & J & Ej & F & _). rewrite F.
    replace j with k by lia. rewrite E. reflexivity.
Qed.
Theorem hash_sound width slot : level_is_sound (hash width slot).
Proof.
  intros parents n stored ? ? (W & Low & Distinct). split; cbn -[Z.mul Z.div find].
  - intros r p R P _. destruct (row_position parents width r p R P) as (? & E & M).
    split; [assumption|]. rewrite M, E. reflexivity.
  - intros r p q R P Q. destruct (find _ (range n)) as [c|] eqn:C; [| intros X; discriminate X].
    destruct (find (fun c => stored r c && (slot r c =? q)) (range n)) as [d|] eqn:D; [| intros _ X; discriminate X].
    intros _ _ ->. apply find_some in C, D. destruct C as [_ C], D as [_ D]. lia.
  - intros r c R C S. exists (slot r c). split; [apply Low; assumption|].
    destruct (find _ (range n)) as [d|] eqn:D.
    + apply find_some in D. destruct D as [I D]. apply in_range in I. apply andb_prop in D. destruct D as [D E].
      split; [lia|]. apply (Distinct r); auto. lia.
    + pose proof (find_none _ _ D c (proj2 (in_range n c) C)) as X. cbv beta in X. rewrite S, Z.eqb_refl in X.
      discriminate X.
Qed.

(* -- formats of levels -------------------------------------------------------------------------------------------- *)
Module Make (S : SCALARS).
Module L := Lemmas.Make S.
Export L.

Section Format.
Variables (t : tensor) (stored : list Z -> bool).
Definition of_prefix (prefix : Z -> list Z) : pattern := fun r c => stored (prefix r ++ [c]).
Definition below (prefix : Z -> list Z) (m : structure) (q : Z) : list Z :=
  let (r, c) := entry m q in prefix r ++ [c].
(* The structures of all levels, and the coordinates of each position of the last one. *)
Fixpoint compress (format : list level) (extents : list Z) (parents : Z) (prefix : Z -> list Z) :
    list structure * (Z -> list Z) :=
  match format, extents with
  | l :: format, n :: extents =>
      let m := encode l parents n (of_prefix prefix) in
      let (more, last) := compress format extents (number m) (below prefix m) in (m :: more, last)
  | _, _ => ([], prefix)
  end.
(* The program of `sparse`: at each level a sum over the positions, each of which is placed at its coordinate. *)
Fixpoint decompress (levels : list structure) (values : Z -> scalar) (r : Z) : tensor :=
  match levels with
  | [] => fun _ => values r
  | m :: levels => reduce add (low m r) (high m r) (fun p =>
      guard (valid m r p) (place (coordinate m r p) (decompress levels values (position m r p))))
  end.
Fixpoint formats_have_space (format : list level) (extents : list Z) (parents : Z) (prefix : Z -> list Z) : Prop :=
  match format, extents with
  | l :: format, n :: extents =>
      let m := encode l parents n (of_prefix prefix) in
      0 <= parents /\ 0 <= n /\ has_space l parents n (of_prefix prefix) /\
      formats_have_space format extents (number m) (below prefix m)
  | [], [] => True
  | _, _ => False
  end.
(* A prefix that is not stored has only zeros below it. *)
Definition covers : Prop := forall prefix rest, stored prefix = false -> t (prefix ++ rest) = zero.
Theorem decompress_compress format : covers -> Forall level_is_sound format -> forall extents parents prefix r p,
  formats_have_space format extents parents prefix -> 0 <= r < parents -> within extents p ->
  let (levels, last) := compress format extents parents prefix in
  decompress levels (fun q => t (last q)) r p = t (prefix r ++ p).
Proof.
  intros Covers Sound. induction Sound as [|l format Sl _ IH]; intros [|n extents] parents prefix r p; cbn -[reduce];
    try easy.
  - intros _ _ W. destruct p; [rewrite app_nil_r; reflexivity | contradiction W].
  - intros (Np & Nn & Space & More) R W. destruct p as [|c p]; [contradiction W|]. destruct W as [C W].
    pose proof (Sl parents n (of_prefix prefix) Np Nn Space) as [Entry Unique Complete].
    set (m := encode l parents n (of_prefix prefix)) in *.
    specialize (IH extents (number m) (below prefix m)).
    destruct (compress format extents (number m) (below prefix m)) as [levels last].
    cbn [decompress]. unfold reduce, guard, place.
    assert (Here : forall q, low m r <= q < high m r -> valid m r q = true -> coordinate m r q = c ->
      decompress levels (fun k => t (last k)) (position m r q) p = t (prefix r ++ c :: p)).
    { intros q Q V E. destruct (Entry r q R Q V) as [B Of]. rewrite (IH _ p More B W).
      unfold below. rewrite Of, E, <- app_assoc. reflexivity. }
    destruct (stored (prefix r ++ [c])) eqn:St.
    + destruct (Complete r c R C St) as (q & Q & V & E). rewrite (sum_delta q).
      * replace ((low m r <=? q) && (q <? high m r)) with true by lia. rewrite V, E, Z.eqb_refl. auto.
      * intros k K D. destruct (valid m r k) eqn:Vk; [| reflexivity].
        destruct (Z.eqb_spec c (coordinate m r k)) as [Ek|]; [| reflexivity].
        contradiction D. apply (Unique r k q R K Q Vk V). congruence.
    + replace (t (prefix r ++ c :: p)) with zero; [| symmetry; change (c :: p) with ([c] ++ p); rewrite app_assoc;
        apply Covers, St].
      apply sum_zeros. intros k K. destruct (valid m r k) eqn:Vk; [| reflexivity].
      destruct (Z.eqb_spec c (coordinate m r k)) as [Ek|]; [| reflexivity].
      rewrite (Here k K Vk (eq_sym Ek)). change (c :: p) with ([c] ++ p). rewrite app_assoc. apply Covers, St.
Qed.
End Format.
End Make.
