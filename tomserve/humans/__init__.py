"""Asking people what models are asked: forms to fill in, and reading them as a run of the model "human".

    tomserve dataset questionnaire perturbed-2 --out study --people 40 --stories 24 --limit 480
    tomserve dataset answers study answers/*.json --run human

`texts` holds what the forms say, `questionnaire` draws who is asked what and writes the pages, `plan` keeps that,
`answers` reads and checks what came back, and `run` makes a run folder of it, which every other command takes.
"""
