-- The directory: who asks, on which plan, with which tokens.
--
-- weir reads it, weirctl writes it; other programs may write it too. Names are the
-- keys, so that it can be read without joins. Times are whole seconds since 1970.
-- A migration that is out is never changed: what comes later is a file of its own.

CREATE TABLE plans (
	name TEXT PRIMARY KEY NOT NULL CHECK (length(name) BETWEEN 1 AND 64),
	description TEXT NOT NULL DEFAULT ''
) STRICT, WITHOUT ROWID;

INSERT INTO plans (name, description) VALUES ('default', 'users without another plan');

CREATE TABLE users (
	name TEXT PRIMARY KEY NOT NULL CHECK (length(name) BETWEEN 1 AND 255),
	plan TEXT NOT NULL DEFAULT 'default' REFERENCES plans (name) ON UPDATE CASCADE,
	created INTEGER NOT NULL DEFAULT (unixepoch()),
	disabled INTEGER -- since when; NULL: in use
) STRICT, WITHOUT ROWID;

-- A token itself is nowhere, only its SHA-256.
CREATE TABLE tokens (
	id INTEGER PRIMARY KEY AUTOINCREMENT, -- an id that was seen is never another's
	hash BLOB NOT NULL UNIQUE CHECK (length(hash) = 32),
	user TEXT NOT NULL REFERENCES users (name) ON UPDATE CASCADE ON DELETE CASCADE,
	label TEXT NOT NULL DEFAULT '',
	admin INTEGER NOT NULL DEFAULT 0 CHECK (admin IN (0, 1)), -- 1: meets no limit
	created INTEGER NOT NULL DEFAULT (unixepoch()),
	expires INTEGER, -- from then on it is unknown; NULL: never
	revoked INTEGER  -- since when it is unknown; NULL: not
) STRICT;

CREATE INDEX tokens_by_user ON tokens (user);
