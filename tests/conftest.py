"""What holds for every test: Hypothesis measures no time, since a busy machine is not a bug."""

from hypothesis import HealthCheck, settings

settings.register_profile("house", deadline=None, suppress_health_check=[HealthCheck.too_slow], print_blob=True)
settings.load_profile("house")
