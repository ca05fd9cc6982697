// Package codec converts between Arrow columns and the values of Postgres's protocol. A [Copier] encodes staged rows
// for COPY in binary format. [Batches] and [Answer] decode the rows of a result.
package codec
