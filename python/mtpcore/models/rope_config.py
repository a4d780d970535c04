"""The rotary embedding's parameters, wherever a config.json keeps them."""

from __future__ import annotations

from typing import TYPE_CHECKING

from ..layers.rope import RopeConfig

if TYPE_CHECKING:
    from .fields import Fields

DEFAULT_PARTIAL = 0.25


def read_rope(fields: Fields, head_dim: int, max_positions: int) -> RopeConfig:
    """Look in `rope_parameters`, then `rope_scaling`, then at the level of the model itself."""
    nested = [f for f in (fields.child("rope_parameters"), fields.child("rope_scaling")) if f]
    places = [*nested, fields]

    def find(key: str) -> Fields:
        return next((place for place in places if place.get(key) is not None), places[0])

    theta = find("rope_theta").number("rope_theta")
    partial = find("partial_rotary_factor").number("partial_rotary_factor", DEFAULT_PARTIAL)
    rotary_dim = int(head_dim * partial)
    if partial > 1 or rotary_dim < 2 or rotary_dim % 2:
        raise find("partial_rotary_factor").error(
            "partial_rotary_factor",
            f"is {partial:g}, which makes {rotary_dim} of {head_dim} dimensions rotate",
        )
    kind_place = next((p for p in nested if p.get("rope_type") or p.get("type")), None)
    if kind_place is None:
        return RopeConfig(head_dim, rotary_dim, theta)
    key = "rope_type" if kind_place.get("rope_type") else "type"
    kind = kind_place.get(key)
    # Text uses one position for all sections, so that multimodal sections are plain rotation.
    if kind in ("default", "mrope"):
        return RopeConfig(head_dim, rotary_dim, theta)
    if kind != "yarn":
        raise kind_place.error(key, f"is {kind!r}; supported are 'default' and 'yarn'")
    original = kind_place.integer("original_max_position_embeddings", max_positions)
    return RopeConfig(
        head_dim,
        rotary_dim,
        theta,
        factor=kind_place.number("factor", max_positions / original),
        original_max_positions=original,
        beta_fast=kind_place.number("beta_fast", 32.0),
        beta_slow=kind_place.number("beta_slow", 1.0),
        truncate=kind_place.boolean("truncate", True),
        attention_factor=kind_place.optional_number("attention_factor"),
        mscale=kind_place.optional_number("mscale"),
        mscale_all_dim=kind_place.optional_number("mscale_all_dim"),
    )
