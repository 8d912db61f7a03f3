"""The trace tools' subcommands of `densecore`."""
