"""Small images for tests."""

import base64

from graphexec.messages import Image

# One transparent pixel each.
PNG = base64.b64decode(
    "iVBORw0KGgoAAAANSUhEUgAAAAEAAAABCAYAAAAfFcSJAAAADUlEQVR42mNk+M9QDwADhgGAWjR9awAAAABJRU5ErkJggg=="
)
GIF = base64.b64decode("R0lGODlhAQABAIAAAAAAAP///yH5BAEAAAAALAAAAAABAAEAAAIBRAA7")

CAT = Image.from_bytes(PNG)
DOG = Image.from_bytes(GIF)
ADDRESS = Image("https://example.com/cat.png")
