# ruff: noqa: INP001 - alembic runs it by its path; as a module it would have no context to read
"""What alembic runs to migrate, on the connection that it is handed and in its transaction."""

from alembic import context

from optest.store.schema import VERSION_TABLE

context.configure(connection=context.config.attributes["connection"], version_table=VERSION_TABLE)
context.run_migrations()
