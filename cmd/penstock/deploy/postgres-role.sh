#!/bin/sh
# The role that penstock loads with, and its schema. It owns nothing else and is no superuser. Roles that read are
# members of penstock_readers: GRANT penstock_readers TO anna. The image runs this once, when it makes the database.
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
