"""The schedule of a model: the only thing that loops over layers."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True)
class ExecLayer:
    """One execution of a physical layer. `kv_slot` or `state_slot` addresses its own memory, the
    other is -1; a looped model visits a physical layer again with other slots."""

    physical: int
    kind: str
    kv_slot: int
    state_slot: int


def build_exec_layers(layer_types: tuple[str, ...]) -> tuple[ExecLayer, ...]:
    """Each layer once, in order; slots count up by kind."""
    layers: list[ExecLayer] = []
    num_kv = num_states = 0
    for i, kind in enumerate(layer_types):
        if kind == "full_attention":
            layers.append(ExecLayer(i, kind, num_kv, -1))
            num_kv += 1
        else:
            layers.append(ExecLayer(i, kind, -1, num_states))
            num_states += 1
    return tuple(layers)
