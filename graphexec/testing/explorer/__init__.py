"""Every run of a machine on the real engine, and assertions about them. `graphexec.testing` exports them."""
