"""Content: finding what researchers edit (presets, prompts, stages, studies), and YAML errors that name the line."""

from tomserve.content.find import PACKAGE, checkout, code_digest, data_file, digest, find, names, roots

__all__ = ["PACKAGE", "checkout", "code_digest", "data_file", "digest", "find", "names", "roots"]
