from collections.abc import Iterable
from typing import Any, TypeVar

T = TypeVar("T")

class RepeatedScalarFieldContainer(list[T]): ...

class RepeatedCompositeFieldContainer(list[T]):
    def add(self, **fields: Any) -> T: ...
    def extend(self, values: Iterable[T]) -> None: ...
