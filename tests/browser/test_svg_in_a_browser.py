"""A browser with any fonts places the parts of an SVG where the layout expects them."""

from typing import Any

import pytest

from graphexec import Machine, executor
from graphexec.draw.formats.svg import svg
from graphexec.draw.model.picture import picture_of
from tests.browser.boxes import elements, overlapping_texts
from tests.draw.browser import Page
from tests.draw.machines import MACHINES
from tests.parameters import some

pytestmark = pytest.mark.browser


@pytest.mark.parametrize("machine", some(MACHINES, 20))
def test_labels_overlap_neither_labels_nor_nodes(page: Page, machine: Machine[Any, Any]) -> None:
    picture = picture_of(machine.verify())
    page.set_content(svg(picture))
    labels = elements(page, "g.edge-label")
    assert len(labels) == len(picture.arrows)
    assert overlapping_texts(labels, elements(page, "g.node, [data-node=END], .dot")) == []


@pytest.mark.parametrize("machine", some(MACHINES, 20))
def test_text_is_inside_its_shape(page: Page, machine: Machine[Any, Any]) -> None:
    picture = picture_of(machine.verify())
    page.set_content(svg(picture))
    (whole,) = elements(page, "svg")
    assert [one.text for one in elements(page, "text") if not whole.holds(one)] == []
    for box in picture.boxes:
        (shape, *_) = elements(page, f'[data-node="{box.name}"] .outline')
        texts = elements(page, f'[data-node="{box.name}"] text')
        assert len(texts) == 1 + len(box.lines)
        assert [one.text for one in texts if not shape.holds(one)] == []
    # The texts of the legend and the caption.
    assert overlapping_texts(elements(page, "text.start")) == []


def test_text_width_does_not_depend_on_the_font(page: Page) -> None:
    drawing = svg(picture_of(executor.AGENT_EXECUTOR.verify()))
    page.set_content(drawing)
    widths = [one.right - one.left for one in elements(page, "text")]
    page.set_content(drawing.replace('font-family="', 'font-family="monospace, '))
    assert [one.right - one.left for one in elements(page, "text")] == pytest.approx(widths, abs=2)
