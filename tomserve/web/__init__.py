"""The workbench: a web server on which experiments are queued, watched, read and compared in a browser.

`tomserve web` starts it. It keeps everything that counts in the run folders; its own database, in ``runs/.web``, can be
thrown away and is made again from them. Pages and the programming interface (tomserve.web.routes.api) call the same
functions.
"""
