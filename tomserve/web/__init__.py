"""The workbench: a web server on which experiments are queued, watched, read and compared in a browser.

`tomserve web` starts it. It keeps everything that counts in the run folders; what it computes from them is kept in the
user's cache. Pages and the programming interface (tomserve.web.routes.api) call the same functions.
"""
