"""What holds for every test: Hypothesis measures no time, since a busy machine is not a bug.

`pytest --hypothesis-profile=thorough` tries more examples of each property; CI does.
"""

from hypothesis import HealthCheck, settings

settings.register_profile("thorough", deadline=None, suppress_health_check=[HealthCheck.too_slow], print_blob=True)
settings.register_profile("house", settings.get_profile("thorough"), max_examples=30)
settings.load_profile("house")
