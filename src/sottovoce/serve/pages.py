"""The playground and the API documentation; nothing is loaded from other servers."""

from html import escape
from importlib import resources
from typing import Any

from fastapi import APIRouter, FastAPI
from fastapi.responses import HTMLResponse, Response

_TYPES = {".html": "text/html", ".css": "text/css", ".js": "text/javascript"}
_FILES = {
    "/": "playground.html",
    "/static/playground.js": "playground.js",
    "/static/style.css": "style.css",
}
PATHS = (*_FILES, "/docs")
"""Paths that are not in the OpenAPI description."""


def pages_router(app: FastAPI) -> APIRouter:
    """The pages; each file is read once, at startup."""
    router = APIRouter(include_in_schema=False)
    folder = resources.files("sottovoce.serve").joinpath("static")
    for path, name in _FILES.items():
        content = folder.joinpath(name).read_bytes()
        router.add_api_route(path, _serve(content, _TYPES[name[name.rindex(".") :]]))

    @router.get("/docs")
    async def docs() -> HTMLResponse:
        return HTMLResponse(documentation(app.openapi()))

    return router


def _serve(content: bytes, kind: str) -> Any:
    async def serve() -> Response:
        return Response(content, media_type=f"{kind}; charset=utf-8")

    return serve


def documentation(described: dict[str, Any]) -> str:
    """The OpenAPI description as one HTML page."""
    schemas = described.get("components", {}).get("schemas", {})
    parts = [
        _endpoint(method, path, operation, schemas)
        for path, methods in sorted(described["paths"].items())
        for method, operation in methods.items()
    ]
    info = described["info"]
    return (
        '<!doctype html><html lang="en"><head><meta charset="utf-8">'
        '<meta name="viewport" content="width=device-width, initial-scale=1">'
        '<meta name="color-scheme" content="light dark">'
        f"<title>{escape(info['title'])}: endpoints</title>"
        '<link rel="icon" href="data:,"><link rel="stylesheet" href="static/style.css">'
        f'</head><body><header class="top"><h1>{escape(info["title"])}</h1>'
        f"<p>{escape(info['description'])}</p>"
        '<nav><a href="./">Playground</a> <a href="openapi.json">openapi.json</a></nav></header>'
        f'<main class="docs">{"".join(parts)}</main></body></html>'
    )


def _endpoint(
    method: str, path: str, operation: dict[str, Any], schemas: dict[str, dict[str, Any]]
) -> str:
    description = escape(operation.get("description", ""))
    body = operation.get("requestBody", {}).get("content", {}).get("application/json", {})
    answer = operation["responses"].get("200", {}).get("content", {}).get("application/json", {})
    errors = "".join(
        f"<li><code>{escape(status)}</code> {escape(response['description'])}</li>"
        for status, response in sorted(operation["responses"].items())
        if status != "200"
    )
    return (
        f'<section class="card"><h2><span class="method">{escape(method.upper())}</span> '
        f"<code>{escape(path)}</code></h2><p>{description}</p>"
        + _tables("Request", body.get("schema"), schemas)
        + _tables("Response", answer.get("schema"), schemas)
        + f"<details><summary>Errors</summary><ul>{errors}</ul></details></section>"
    )


def _tables(heading: str, schema: Any, schemas: dict[str, dict[str, Any]]) -> str:
    """One table for each object in a schema; for a union, one for each alternative."""
    if not schema:
        return ""
    found = []
    for name in _references(schema):
        fields = schemas[name].get("properties", {})
        required = schemas[name].get("required", ())
        rows = "".join(
            f"<tr><th scope='row'><code>{escape(field)}</code>"
            f"{' <em>required</em>' if field in required else ''}</th>"
            f"<td><code>{escape(_kind(about, schemas))}</code></td>"
            f"<td>{escape(about.get('description', ''))}</td></tr>"
            for field, about in fields.items()
        )
        found.append(
            f'<div class="scroll"><table><caption>{heading}: {escape(name)}</caption>'
            "<thead><tr><th scope='col'>field</th><th scope='col'>type</th>"
            f"<th scope='col'>meaning</th></tr></thead><tbody>{rows}</tbody></table></div>"
        )
    return "".join(found)


def _references(schema: Any) -> list[str]:
    if "$ref" in schema:
        return [schema["$ref"].rpartition("/")[2]]
    return [name for part in schema.get("oneOf", ()) for name in _references(part)]


def _kind(about: dict[str, Any], schemas: dict[str, dict[str, Any]]) -> str:
    """The type of a field, with its limits."""
    if "$ref" in about:
        name = about["$ref"].rpartition("/")[2]
        return " | ".join(map(str, schemas[name]["enum"])) if "enum" in schemas[name] else name
    for choice in ("anyOf", "oneOf", "allOf"):
        if choice in about:
            return " | ".join(_kind(part, schemas) for part in about[choice])
    if "const" in about:
        return str(about["const"])
    if "enum" in about:
        return " | ".join(map(str, about["enum"]))
    kind = str(about.get("type", "any"))
    if kind == "array":
        return f"list of {_kind(about.get('items', {}), schemas)}{_range(about)}"
    if kind == "object" and isinstance(about.get("additionalProperties"), dict):
        return f"object of {_kind(about['additionalProperties'], schemas)}"
    return kind + _range(about)


def _range(about: dict[str, Any]) -> str:
    words = {
        "minimum": ">=", "exclusiveMinimum": ">", "maximum": "<=", "exclusiveMaximum": "<",
        "maxLength": "length <=", "maxItems": "entries <=",
    }  # fmt: skip
    limits = [f"{sign} {about[name]:g}" for name, sign in words.items() if name in about]
    return f" ({', '.join(limits)})" if limits else ""
