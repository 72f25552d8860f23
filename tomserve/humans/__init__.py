"""Asking people what models are asked: forms to fill in, and reading them as a run of the model "human".

    tomserve dataset questionnaire perturbed-2 --out study --people 40 --stories 24 --limit 480
    tomserve dataset answers study answers/*.json --run human

`words` holds what the forms say, `design` draws who is asked what, `plan` keeps that, `forms` writes the pages,
`answers` reads and checks what came back, and `run` makes a run folder of it, which every other command takes.
"""
