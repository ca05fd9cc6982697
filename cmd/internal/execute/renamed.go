package execute

import (
	"context"
	"errors"
	"fmt"
	"slices"

	"github.com/apache/arrow-go/v18/arrow"
	"github.com/apache/arrow-go/v18/arrow/array"

	"github.com/penstock-data/penstock/cmd/internal/config"
	"github.com/penstock-data/penstock/cmd/internal/open"
	"github.com/penstock-data/penstock/cmd/internal/pipeline/cursor"
	"github.com/penstock-data/penstock/load"
)

// maxLost limits the removed sources that are looked up before a run. If there are more, none of them is looked up.
const maxLost = 20

// warnRenamed warns about a new source with the address of a source that is no longer in the configuration. The new
// source may be the old source with another name. Then the rows under the old name would stay in the tables. Addresses
// that several configured sources share are ignored.
func (x *Executor) warnRenamed(ctx context.Context, c *config.Config, p config.Pipeline, sources []config.Ref) error {
	stored, err := ReadSources(ctx, x.Open.State(c), p.Name)
	if err != nil {
		return err
	}
	known := map[string]bool{}
	var lost []string
	for _, r := range stored.Records {
		known[r.Source] = true
		if _, is := c.Source(r.Source); !is {
			lost = append(lost, r.Source)
		}
	}
	if len(lost) == 0 || len(lost) > maxLost {
		return nil
	}
	at := map[string][]string{} // sources of the configuration by their address
	for _, s := range c.Sources {
		for _, address := range addressesOf(s) {
			at[address] = append(at[address], s.Name)
		}
	}
	for _, old := range lost {
		addresses, err := x.addressesIn(ctx, c, p, old)
		if err != nil {
			return fmt.Errorf("look up source %s: %w", old, err)
		}
		for _, address := range addresses {
			now := at[address]
			if len(now) != 1 || known[now[0]] || !slices.ContainsFunc(sources, func(r config.Ref) bool { return r.Text == now[0] }) {
				continue
			}
			fmt.Fprintf(x.Messages, "source %s is new and reads %s, as did source %s, which is no longer in the configuration\n"+
				"hint: if source %[3]s was renamed, restore its old name; under the new name everything is loaded again, beside the old rows\n", now[0], address, old)
			break
		}
	}
	return nil
}

// addressesOf returns the addresses of a source's surfaces.
func addressesOf(s config.Source) (all []string) {
	for _, surface := range []*config.Surface{s.V2, s.App} {
		if surface == nil {
			continue
		}
		if address := open.Address(surface.BaseURL); !slices.Contains(all, address) {
			all = append(all, address)
		}
	}
	return all
}

// addressesIn returns the addresses of a source. It reads them from the source's cursors in the pipeline's first
// destination.
func (x *Executor) addressesIn(ctx context.Context, c *config.Config, p config.Pipeline, source string) (all []string, err error) {
	d, _ := c.Destination(p.To[0].Text)
	dest, err := x.Open.Part(ctx, c, d, source)
	if err != nil {
		return nil, err
	}
	err = dest.Scan(ctx, load.State.Name, []string{"cursor"}, func(b arrow.RecordBatch) error {
		cursors, ok := b.Column(0).(*array.String)
		for i := range int(b.NumRows()) {
			if !ok || cursors.IsNull(i) {
				continue
			}
			if address := cursor.AddressOf(cursors.Value(i)); address != "" && !slices.Contains(all, address) {
				all = append(all, address)
			}
		}
		return nil
	})
	return all, errors.Join(err, dest.Close())
}
