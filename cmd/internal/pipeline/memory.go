package pipeline

import (
	"context"
	"encoding/json"
	"fmt"
	"strings"

	"github.com/apache/arrow-go/v18/arrow"
	"github.com/apache/arrow-go/v18/arrow/array"

	"github.com/penstock-data/penstock/cmd/internal/pipeline/drift"
	"github.com/penstock-data/penstock/extract"
	"github.com/penstock-data/penstock/load"
)

// Memory is what a destination stores about one stream of a pipeline: how its endpoint answers, and a profile of
// the last whole pass.
type Memory struct {
	extract.Convention
	Profile *drift.Profile `json:"profile,omitempty"`
	Rules   string         `json:"rules,omitempty"` // fingerprint of the stream's filter in the last whole pass
}

// Empty reports whether there is nothing to store.
func (m Memory) Empty() bool { return m.Of == "" && m.Profile == nil }

func (m Memory) text() string {
	if m.Empty() {
		return ""
	}
	b, err := json.Marshal(m)
	if err != nil {
		panic(err)
	}
	return string(b)
}

// Memories maps stream names to what a destination stores about them.
type Memories map[string]Memory

var conventionColumns = []string{"pipeline", "stream", "convention"}

// Recall reads what d stores about the pipeline's streams.
func Recall(ctx context.Context, d load.Destination, pipeline string) (Memories, error) {
	all := Memories{}
	err := d.Scan(ctx, load.Conventions.Name, conventionColumns, func(b arrow.RecordBatch) error {
		columns := [3]*array.String{}
		for i := range columns {
			c, ok := b.Column(i).(*array.String)
			if !ok {
				return fmt.Errorf("column %q is not text", b.ColumnName(i))
			}
			columns[i] = c
		}
		for i := range int(b.NumRows()) {
			if columns[0].Value(i) != pipeline {
				continue
			}
			var m Memory
			if err := json.Unmarshal([]byte(columns[2].Value(i)), &m); err != nil {
				return fmt.Errorf("stream %s: %w", columns[1].Value(i), err)
			}
			all[strings.Clone(columns[1].Value(i))] = m
		}
		return nil
	})
	if err != nil {
		return nil, fmt.Errorf("read conventions: %w", err)
	}
	return all, nil
}
