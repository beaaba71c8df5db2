"""`History`: small trees by hand. `test_board` compares all sizes with the recursive definition of RFC 9162."""

from __future__ import annotations

import hashlib

from psephos.protocol.board.history import EMPTY, Head, History, leaf_hash

LEAVES = [leaf_hash(bytes([k])) for k in range(7)]


def node(left: bytes, right: bytes) -> bytes:
    return hashlib.sha256(b"\1" + left + right).digest()


def test_trees_with_up_to_seven_leaves() -> None:
    assert hashlib.sha256(b"").digest() == EMPTY
    assert leaf_hash(b"x") == hashlib.sha256(b"\0x").digest()
    a, b, c, d, e, f, g = LEAVES
    four = node(node(a, b), node(c, d))
    trees = [a, node(a, b), node(node(a, b), c), four, node(four, e), node(four, node(e, f))]
    trees.append(node(four, node(node(e, f), g)))
    history = History()
    assert history.head == Head(0, EMPTY)
    for size, (leaf, root) in enumerate(zip(LEAVES, trees, strict=True), 1):
        assert history.append(leaf) == Head(size, root) == history.head
        assert len(history._subtrees) == size.bit_count(), "only complete subtrees are stored"


def test_a_log_extends_its_own_heads_only() -> None:
    history, heads = History(), [Head()]
    heads += [history.append(leaf) for leaf in LEAVES]
    assert all(history.extends(head) for head in heads)
    assert not any(history.extends(Head(head.size, bytes(32))) for head in heads)
    assert not history.extends(Head(len(LEAVES) + 1, history.head.root))
    assert not history.extends(Head(2, heads[3].root))


def test_str_and_repr_of_a_head() -> None:
    assert str(Head(3, b"\xab" * 32)) == "3 entries, abababababab"
    assert "ab" not in repr(Head(3, b"\xab" * 32))
