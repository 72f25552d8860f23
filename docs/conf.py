"""How Sphinx builds the site from the pages of this folder: `make docs` writes it to build/site.

Nothing is fetched when the site is built or read: the theme brings its own style, fonts are those of the reader's
machine, and the search runs in the browser over an index that lies beside the pages.
"""

import sys
from pathlib import Path

HERE = Path(__file__).resolve().parent
sys.path[:0] = [str(HERE), str(HERE.parent)]

import tomserve  # noqa: E402 - the checkout has to be found first

project = "tomserve"
author = "The tomserve maintainers"
project_copyright = "The tomserve maintainers. Code: Apache-2.0. Dataset: CC BY 4.0"
version = release = tomserve.__version__

extensions = ["myst_parser", "generated"]
myst_enable_extensions = ["colon_fence", "deflist"]
myst_heading_anchors = 3  # so that a link to a section of another page is checked when the site is built
nitpicky = False  # annotations name types of Python and of polars, whose own manuals are not linked
python_use_unqualified_type_names = True
maximum_signature_line_length = 88

html_theme = "furo"
html_title = f"tomserve {release}"
html_show_sphinx = False
html_copy_source = False
html_theme_options: dict[str, list[str]] = {"top_of_page_buttons": []}
