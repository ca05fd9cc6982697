#!/bin/sh
# Creates penstock's role and its schema. The role owns nothing else and is not a superuser. To let a role read the
# tables: GRANT penstock_readers TO anna. The Postgres image runs this script once, when it creates the database.
set -eu
psql --no-psqlrc --set ON_ERROR_STOP=1 --username "$POSTGRES_USER" --dbname "$POSTGRES_DB" <<'SQL'
\set password `cat /run/secrets/postgres_password`
REVOKE CREATE ON SCHEMA public FROM PUBLIC;
CREATE ROLE penstock LOGIN PASSWORD :'password' NOSUPERUSER NOCREATEDB NOCREATEROLE;
CREATE SCHEMA platform AUTHORIZATION penstock;
CREATE ROLE penstock_readers NOLOGIN;
GRANT USAGE ON SCHEMA platform TO penstock_readers;
ALTER DEFAULT PRIVILEGES FOR ROLE penstock IN SCHEMA platform GRANT SELECT ON TABLES TO penstock_readers;
SQL
