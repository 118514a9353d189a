"""The subset of the official SARIF 2.1.0 schema for the objects that graphexec writes.

The schema itself is in no Python package. Where an object is written here, nothing but these properties may stand in
it, which is stricter than the official schema; what is required, and what values may be, is the same.
"""

import importlib
from typing import Any

# Any: the package has no types.
_jsonschema: Any = importlib.import_module("jsonschema")


def _object(required: list[str], **properties: Any) -> dict[str, Any]:
    return {"type": "object", "properties": properties, "required": required, "additionalProperties": False}


def _list(of: Any, *, least: int = 0) -> dict[str, Any]:
    return {"type": "array", "items": of, "minItems": least}


_TEXT = {"type": "string"}
_BAG = {"type": "object"}
_MESSAGE = _object(["text"], text=_TEXT)

_LOCATION = _object(
    [],
    physicalLocation=_object(
        ["artifactLocation"],
        artifactLocation=_object([], uri={"type": "string", "format": "uri-reference"}, uriBaseId=_TEXT),
        region=_object([], startLine={"type": "integer", "minimum": 1}),
    ),
    logicalLocations=_list(_object([], name=_TEXT, fullyQualifiedName=_TEXT, kind=_TEXT)),
    message=_MESSAGE,
)

_STEP = _object(
    [],
    location=_LOCATION,
    nestingLevel={"type": "integer", "minimum": 0},
    executionOrder={"type": "integer", "minimum": -1},
    importance={"enum": ["important", "essential", "unimportant"]},
)

_RULE = _object(["id"], id=_TEXT, name=_TEXT, shortDescription=_MESSAGE)

_RESULT = _object(
    ["message"],
    ruleId=_TEXT,
    ruleIndex={"type": "integer", "minimum": -1},
    level={"enum": ["none", "note", "warning", "error"]},
    message=_MESSAGE,
    locations=_list(_LOCATION),
    codeFlows=_list(
        _object(["threadFlows"], threadFlows=_list(_object(["locations"], locations=_list(_STEP, least=1)), least=1))
    ),
    partialFingerprints={"type": "object", "additionalProperties": {"type": "string"}},
    properties=_BAG,
)

_NOTIFICATION = _object(
    ["message"], level={"enum": ["none", "note", "warning", "error"]}, message=_MESSAGE, locations=_list(_LOCATION)
)

SCHEMA = _object(
    ["version", "runs"],
    **{"$schema": {"type": "string", "format": "uri"}},
    version={"const": "2.1.0"},
    runs=_list(
        _object(
            ["tool"],
            tool=_object(["driver"], driver=_object(["name"], name=_TEXT, version=_TEXT, rules=_list(_RULE))),
            columnKind={"enum": ["utf16CodeUnits", "unicodeCodePoints"]},
            results=_list(_RESULT),
            invocations=_list(
                _object(
                    ["executionSuccessful"],
                    executionSuccessful={"type": "boolean"},
                    toolExecutionNotifications=_list(_NOTIFICATION),
                )
            ),
            properties=_BAG,
        )
    ),
)


def validate(log: object) -> None:
    """Raise an error with the position at which a log is not SARIF."""
    _jsonschema.validate(log, SCHEMA)
