//go:build iceberg

package iceberg

import (
	"bytes"
	"encoding/json"

	"github.com/apache/iceberg-go/table"
)

type tableChange struct {
	table        string
	Identifier   identifier          `json:"identifier"`
	Requirements []table.Requirement `json:"requirements"`
	Updates      []json.RawMessage   `json:"updates"`
}

type identifier struct {
	Namespace []string `json:"namespace"`
	Name      string   `json:"name"`
}

// change encodes the change of a table. Some catalogs, such as Nessie, need the field last-column-id for a new schema,
// but iceberg-go omits it.
func (r *restCatalog) change(of string, requires []table.Requirement, updates []table.Update, lastColumn int) (tableChange, error) {
	namespace, name := r.namespaces.identifier(of)
	out := tableChange{table: of, Identifier: identifier{[]string{namespace}, name}, Requirements: requires}
	for _, u := range updates {
		text, err := json.Marshal(u)
		if err != nil {
			return out, err
		}
		if u.Action() == table.UpdateAddSchema {
			var all map[string]any
			d := json.NewDecoder(bytes.NewReader(text))
			d.UseNumber()
			if err := d.Decode(&all); err != nil {
				return out, err
			}
			all["last-column-id"] = max(lastColumn, highestID(all["schema"]))
			if text, err = json.Marshal(all); err != nil {
				return out, err
			}
		}
		out.Updates = append(out.Updates, text)
	}
	return out, nil
}

// highestID returns the highest field ID in a part of an encoded schema.
func highestID(part any) (highest int) {
	switch part := part.(type) {
	case map[string]any:
		for name, value := range part {
			if n, ok := value.(json.Number); ok && (name == "id" || name == "element-id") {
				id, _ := n.Int64()
				highest = max(highest, int(id))
			}
			highest = max(highest, highestID(value))
		}
	case []any:
		for _, value := range part {
			highest = max(highest, highestID(value))
		}
	}
	return highest
}

// requirements returns the conditions under which the catalog may change a table. Invariants 13, 16
func requirements(base table.Metadata) []table.Requirement {
	var current *int64
	if s := base.CurrentSnapshot(); s != nil {
		current = &s.SnapshotID
	}
	return []table.Requirement{
		table.AssertTableUUID(base.TableUUID()),
		table.AssertRefSnapshotID(table.MainBranch, current),
		table.AssertCurrentSchemaID(base.CurrentSchema().ID),
		table.AssertDefaultSpecID(base.DefaultPartitionSpec()),
	}
}
