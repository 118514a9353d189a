"""What holds for every test: Hypothesis measures no time, since a busy machine is not a bug.

By default few examples of each property are tried, so that one can run the tests often; with
`pytest --hypothesis-profile=thorough` a hundred, as CI does.
"""

from hypothesis import HealthCheck, settings

settings.register_profile("thorough", deadline=None, suppress_health_check=[HealthCheck.too_slow], print_blob=True)
settings.register_profile("house", settings.get_profile("thorough"), max_examples=20, stateful_step_count=25)
settings.load_profile("house")
