"""Prints the folder that lm-eval is given by ``--include_path``."""

from tomserve.interop.lm_eval import FOLDER

if __name__ == "__main__":
    print(FOLDER)
