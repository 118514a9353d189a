"""PNG: the SVG, drawn by resvg, with a typeface at hand for machines that have none."""

from __future__ import annotations

from importlib.resources import files

from graphexec.errors import InputError

# Pixels for each point: sharp on the screens of today.
_ZOOM = 2


def png(svg: str) -> bytes:
    """Return the picture, in its light colours, as PNG: two pixels for each unit of the SVG.

    Raises `InputError` where the packages that do it are missing.
    """
    try:
        import resvg_py

        typeface = files("font_roboto") / "files"
    except ImportError:
        raise InputError("a PNG needs resvg-py, which is not there; pip install 'graphexec-agents[draw]'") from None
    fonts = [str(typeface / name) for name in ("Roboto-Regular.ttf", "Roboto-Bold.ttf")]
    return resvg_py.svg_to_bytes(svg_string=svg, zoom=_ZOOM, font_files=fonts, sans_serif_family="Roboto")
