"""One model file, read without running code unless it is trusted."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from types import ModuleType
from typing import TypeVar

from memberbound.errors import InputError, import_optional
from memberbound.threads import ONE_AT_A_TIME

_Loaded = TypeVar("_Loaded")
Factory = Callable[..., object]


@dataclass(frozen=True)
class ModelFile:
    """A model file with the permissions for reading it."""

    path: Path
    trust: bool
    factory: Factory | str | None

    @property
    def name(self) -> str:
        """The name without its folder."""
        return self.path.name

    @property
    def ran_code(self) -> tuple[str, ...]:
        """Notes about a trusted file, for readers of the audit."""
        return (f"{self.name} can hold code, which was run because --trust was given.",)

    def unsound(self, what: str) -> InputError:
        """Return the error for a file with indices that native code would use unchecked."""
        return InputError(
            f"model must be an intact file, got {self.name!r} with {what}. It was damaged "
            "or tampered with: save it again."
        )

    def read(self, read: Callable[[], _Loaded]) -> _Loaded:
        """Return the result of ``read``; raise if the file does not load or has another version."""
        import warnings

        with ONE_AT_A_TIME, warnings.catch_warnings(record=True) as caught:
            warnings.simplefilter("always")
            try:
                loaded = read()
            except InputError:
                raise
            except Exception as problem:
                first = f"{type(problem).__name__}: {problem}".splitlines()[0].removesuffix(": ")
                raise InputError(
                    f"model must be a file that loads here, got {first} from {self.name}. Load it "
                    "with the versions of the packages that wrote it."
                ) from None
        other = [w for w in caught if "InconsistentVersion" in w.category.__name__]
        if other:
            raise InputError(
                "model must be of the installed version of scikit-learn, got "
                f"{str(other[0].message).partition('. ')[0]}. Its answers could differ: install "
                "that version, or save the model again."
            )
        return loaded

    def package(self, name: str, extra: str) -> ModuleType:
        """Import the package that reads the file."""
        return import_optional(name, f"to read {self.name}", extra)
