package extract_test

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net/http/httptest"
	"slices"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"golang.org/x/sync/errgroup"

	"github.com/penstock-data/penstock/extract"
	"github.com/penstock-data/penstock/extract/sandbox"
	"github.com/penstock-data/penstock/extract/wire"
	"github.com/penstock-data/penstock/extract/wire/budget"
	"github.com/penstock-data/penstock/schemas"
	"github.com/penstock-data/penstock/state"
)

type platform struct {
	*sandbox.Server
	v2, app, wl *wire.Client
	catalogue   *schemas.Catalogue
}

func newPlatform(t *testing.T, o sandbox.Options) *platform {
	t.Helper()
	o.NoLimits = true
	server, err := sandbox.New(o)
	require.NoError(t, err)
	srv := httptest.NewServer(server)
	t.Cleanup(srv.Close)
	catalogue, err := schemas.Load()
	require.NoError(t, err)
	var routes []wire.Route
	for _, s := range catalogue.Streams() {
		if s.Readable() {
			routes = append(routes, wire.Route{Method: s.Method, Path: s.Path})
		}
	}
	open := func(c wire.Credential) *wire.Client {
		w, err := wire.New(wire.Options{
			Name: "sandbox", BaseURL: srv.URL, Allow: routes, Credential: c,
			Rate: budget.Rate{Limit: 100_000, Window: time.Second},
		})
		require.NoError(t, err)
		t.Cleanup(func() { w.Close() })
		return w
	}
	return &platform{
		Server: server, catalogue: catalogue,
		v2: open(wire.Bearer(sandbox.ReadOnlyKey)), app: open(wire.Bearer(sandbox.ReadOnlyToken)), wl: open(wire.Bearer(sandbox.WhiteLabelToken)),
	}
}

func (p *platform) client(t *testing.T, selected ...schemas.Stream) *extract.Client {
	t.Helper()
	own := make(map[string]*wire.Client)
	for _, s := range p.catalogue.Streams() {
		if s.Auth == schemas.AuthWhiteLabel {
			own[s.Name] = p.wl
		}
	}
	c, err := extract.New(extract.Config{V2: p.v2, App: p.app, Streams: own, Selected: selected, Find: p.catalogue.Find, Dir: t.TempDir()})
	require.NoError(t, err)
	t.Cleanup(func() { require.NoError(t, c.Close()) })
	return c
}

func canonical(t *testing.T, records []json.RawMessage) []string {
	t.Helper()
	out := []string{}
	for _, r := range records {
		d := json.NewDecoder(bytes.NewReader(r))
		d.UseNumber()
		var v any
		require.NoError(t, d.Decode(&v), "%s", r)
		b, err := json.Marshal(v)
		require.NoError(t, err)
		out = append(out, string(b))
	}
	slices.Sort(out)
	return out
}

func readAll(t *testing.T, c *extract.Client, s schemas.Stream) ([]json.RawMessage, *extract.End) {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
	defer cancel()
	var all []json.RawMessage
	var end *extract.End
	for page, err := range c.Pages(ctx, s, "") {
		require.NoError(t, err, s.Name)
		require.Nil(t, end, "a page after the end")
		var records []json.RawMessage
		require.NoError(t, json.Unmarshal(page.Records, &records))
		for _, r := range records {
			all = append(all, bytes.Clone(r))
		}
		end = page.End
	}
	require.NotNil(t, end, "no end")
	return all, end
}

func TestEveryStream(t *testing.T) {
	for name, o := range map[string]sandbox.Options{"demo": {}, "larger": {Seed: 2, Scale: 4}} {
		t.Run(name, func(t *testing.T) {
			p := newPlatform(t, o)
			selected := p.selected()
			c := p.client(t, selected...)
			for _, s := range selected {
				truth, err := p.Truth(s.Name)
				require.NoError(t, err)
				got, end := readAll(t, c, s)
				require.Equal(t, canonical(t, truth), canonical(t, got), s.Name)
				require.NotEmpty(t, end.Rule)
				if end.FirstTotal >= 0 {
					require.Equal(t, int64(len(truth)), end.FirstTotal, s.Name)
					require.Equal(t, end.FirstTotal, end.LastTotal, s.Name)
				}
			}
			require.GreaterOrEqual(t, len(selected), 140)
			require.Zero(t, p.Stats().OutsideSum)
		})
	}
}

func TestEveryListWithoutHints(t *testing.T) {
	p := newPlatform(t, sandbox.Options{})
	for _, s := range p.catalogue.Ordered() {
		if !s.Enabled || s.Parent != "" || s.Context != "" && s.Class != schemas.ClassBoard {
			continue
		}
		if s.Class != schemas.ClassList && s.Class != schemas.ClassBoard {
			continue
		}
		t.Run(s.Name, func(t *testing.T) {
			truth, err := p.Truth(s.Name)
			require.NoError(t, err)
			s.Records, s.Pagination = nil, schemas.Pagination{}
			got, _ := readAll(t, p.client(t, s), s)
			require.Equal(t, canonical(t, truth), canonical(t, got))
		})
	}
}

func (p *platform) selected() []schemas.Stream {
	return slices.DeleteFunc(p.catalogue.Ordered(), func(s schemas.Stream) bool { return !s.Enabled })
}

func try(t *testing.T, c *extract.Client, s schemas.Stream) (records []json.RawMessage, end *extract.End, err error) {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
	defer cancel()
	for page, err := range c.Pages(ctx, s, "") {
		if err != nil {
			return records, nil, err
		}
		var part []json.RawMessage
		require.NoError(t, json.Unmarshal(page.Records, &part))
		for _, r := range part {
			records = append(records, bytes.Clone(r))
		}
		end = page.End
	}
	return records, end, nil
}

func TestEveryStreamThroughFaults(t *testing.T) {
	if testing.Short() {
		t.Skip("takes some seconds")
	}
	for _, fault := range []sandbox.Fault{
		{Kind: sandbox.FaultCut, Bytes: 100, Probability: 0.03},
		{Kind: sandbox.FaultMalformed, Probability: 0.03},
		{Kind: sandbox.FaultTruncate, Bytes: 60, Probability: 0.03},
	} {
		t.Run(fault.Kind, func(t *testing.T) {
			t.Parallel()
			p := newPlatform(t, sandbox.Options{Seed: 7})
			require.NoError(t, p.SetFaults(fault))
			selected := slices.DeleteFunc(p.selected(), func(s schemas.Stream) bool { return s.Parent != "" })
			c := p.client(t, selected...)
			var wg errgroup.Group
			wg.SetLimit(8)
			for _, s := range selected {
				wg.Go(func() error {
					got, end, err := try(t, c, s)
					if err != nil || end == nil {
						return fmt.Errorf("%s: %v %v", s.Name, end, err)
					}
					truth, err := p.Truth(s.Name)
					if !slices.Equal(canonical(t, truth), canonical(t, got)) {
						return fmt.Errorf("%s: differs from the truth: %v", s.Name, err)
					}
					return nil
				})
			}
			require.NoError(t, wg.Wait())
			require.Zero(t, p.Stats().OutsideSum)
		})
	}
}

func TestEveryStreamStuck(t *testing.T) {
	p := newPlatform(t, sandbox.Options{})
	require.NoError(t, p.SetFaults(sandbox.Fault{Kind: sandbox.FaultStuck}))
	failed := 0
	selected := p.selected()
	c := p.client(t, selected...)
	for _, s := range selected {
		if s.Parent != "" {
			continue // the fault also removes the parent's parameters
		}
		got, end, err := try(t, c, s)
		if err != nil {
			failed++
			require.Nil(t, end)
			continue
		}
		truth, err := p.Truth(s.Name)
		require.NoError(t, err)
		require.Equal(t, canonical(t, truth), canonical(t, got), s.Name)
	}
	require.Greater(t, failed, 10)
}

func TestEveryStreamUnavailable(t *testing.T) {
	for kind, want := range map[string]wire.Class{sandbox.FaultModuleOff: wire.NotEntitled, sandbox.FaultHTML: wire.Auth} {
		p := newPlatform(t, sandbox.Options{})
		require.NoError(t, p.SetFaults(sandbox.Fault{Kind: kind}))
		selected := p.selected()
		c := p.client(t, selected...)
		for _, s := range selected {
			if s.Auth == schemas.AuthNone {
				continue
			}
			got, end, err := try(t, c, s)
			require.Error(t, err, "%s %s", kind, s.Name)
			require.Nil(t, end)
			require.Empty(t, got)
			e, ok := errors.AsType[*wire.Error](err)
			require.True(t, ok, "%s: %v", s.Name, err)
			require.Equal(t, want, e.Class, "%s: %v", s.Name, err)
		}
	}
}

func TestEveryStreamResumed(t *testing.T) {
	p := newPlatform(t, sandbox.Options{Seed: 3})
	selected := p.selected()
	c := p.client(t, selected...)
	for _, s := range selected {
		truth, err := p.Truth(s.Name)
		require.NoError(t, err)
		var got []json.RawMessage
		var from state.Cursor
		for end := (*extract.End)(nil); end == nil; {
			for page, err := range c.Pages(t.Context(), s, from) {
				require.NoError(t, err, s.Name)
				var records []json.RawMessage
				require.NoError(t, json.Unmarshal(page.Records, &records))
				for _, r := range records {
					got = append(got, bytes.Clone(r))
				}
				require.NotEqual(t, from, page.Next)
				from, end = page.Next, page.End
				break
			}
		}
		require.Equal(t, canonical(t, truth), canonical(t, got), s.Name)
	}
}

func BenchmarkPages(b *testing.B) {
	server, err := sandbox.New(sandbox.Options{Contacts: 50_000, NoLimits: true})
	require.NoError(b, err)
	srv := httptest.NewServer(server)
	defer srv.Close()
	catalogue, err := schemas.Load()
	require.NoError(b, err)
	s, _ := catalogue.Find("v2.contacts")
	w, err := wire.New(wire.Options{
		Name: "sandbox", BaseURL: srv.URL, Allow: []wire.Route{{Method: "GET", Path: "/v2/contacts"}}, Identity: true,
		Credential: wire.Bearer(sandbox.ReadOnlyKey), Rate: budget.Rate{Limit: 1_000_000, Window: time.Second},
	})
	require.NoError(b, err)
	defer w.Close()
	c, err := extract.New(extract.Config{V2: w, Selected: []schemas.Stream{s}})
	require.NoError(b, err)
	defer c.Close()
	for b.Loop() {
		var bytes int64
		pages := 0
		for page, err := range c.Pages(b.Context(), s, "") {
			require.NoError(b, err)
			bytes += page.Bytes
			pages++
		}
		b.SetBytes(bytes)
		b.ReportMetric(float64(pages), "pages/op")
	}
}
