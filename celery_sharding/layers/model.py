"""Items in layers, frozen."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from typing import Any, overload

MARK = "celery_sharding.layers"
"""The one key of layers as JSON: a list of lists could also be rows of a table."""


class Layers(Sequence[Sequence[Any]]):
    """Layers of items: one runs after the other, its items at the same time.

    Whatever the items are: a list of lists given to a job counts as layers, and rows
    of a table that are lists would become layers of cells. `flat` says that they are
    rows.
    """

    __slots__ = ("_layers",)

    def __init__(self, layers: Iterable[Iterable[Any]]) -> None:
        self._layers = tuple([*layer] for layer in layers)

    @overload
    def __getitem__(self, index: int) -> Sequence[Any]: ...

    @overload
    def __getitem__(self, index: slice) -> Layers: ...

    def __getitem__(self, index: int | slice) -> Sequence[Any] | Layers:
        """Return the items of a layer, or some of the layers."""
        if isinstance(index, slice):
            return Layers(self._layers[index])
        return self._layers[index]

    def __len__(self) -> int:
        """Return how many layers there are."""
        return len(self._layers)

    def __iter__(self) -> Iterator[Sequence[Any]]:
        """Yield the items of each layer."""
        return iter(self._layers)

    def __eq__(self, other: object) -> bool:
        """Return whether they hold the same items in the same layers."""
        return isinstance(other, Layers) and self._layers == other._layers

    __hash__ = None  # type: ignore[assignment]  # their items may change

    def __repr__(self) -> str:
        """Return the number of items of each."""
        return f"Layers({', '.join(str(len(layer)) for layer in self._layers)} items)"

    def __json__(self) -> dict[str, list[list[Any]]]:
        """Return what kombu writes for them."""
        return {MARK: [*self._layers]}


def flat(rows: Iterable[Any]) -> Layers:
    """Return all of them as items of one layer, lists too."""
    return Layers([rows])
