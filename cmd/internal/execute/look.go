package execute

import (
	"context"
	"errors"
	"net/http"
	"slices"
	"sync"
	"time"

	"golang.org/x/sync/errgroup"

	"github.com/penstock-data/penstock/cmd/internal/config"
	"github.com/penstock-data/penstock/cmd/internal/history"
	"github.com/penstock-data/penstock/cmd/internal/open"
	"github.com/penstock-data/penstock/cmd/internal/pipeline"
	"github.com/penstock-data/penstock/cmd/internal/pipeline/forecast"
	"github.com/penstock-data/penstock/extract"
	"github.com/penstock-data/penstock/extract/wire"
	"github.com/penstock-data/penstock/schemas"
)

// Sizes are the sizes of the lists that no run has read yet, as their first pages show them.
type Sizes struct {
	Lists   map[string]forecast.Size
	Sent    int64    // requests
	Failed  int      // lists whose first page could not be read
	Refused []string // those of them that the credential may not read, sorted
	Trouble error    // the error of one of the other lists
}

const (
	laneFailures = 3 // after this many failed lists, no more lists are requested with the credential

	usualProbes = 4  // requests that a first run sends to find out how a list of several pages is paged
	fewPages    = 10 // if a list has more pages, further requests find out the page size, because the cost depends on it
)

// Look requests the first page of each list of r that no run has read yet. For a child stream, it requests the list of
// the first ancestor. If the first requests with a credential fail because the server cannot be reached or does not
// accept the credential, Look requests no more lists with it. // Invariant 15
func Look(ctx context.Context, r *open.Run, o *open.Opener, past history.PastRuns) (Sizes, error) {
	out := Sizes{Lists: map[string]forecast.Size{}}
	streams := unread(r, past)
	if len(streams) == 0 {
		return out, nil
	}
	source, err := o.Source(r.Conf, r.Pipeline, streams, func(w *wire.Options) {
		w.MaxAttempts, w.MaxWait = 2, 5*time.Second
		w.Timeouts = wire.Timeouts{Connect: 5 * time.Second, Handshake: 5 * time.Second, Header: 20 * time.Second, Total: 30 * time.Second}
	})
	if err != nil {
		return out, err
	}
	defer source.Close()
	l := &looking{client: source.Client, out: out, lanes: map[string]*laneLooks{}}
	var looks errgroup.Group
	looks.SetLimit(pipeline.DefaultWorkers)
	for _, s := range streams {
		lane := laneOf(r, s.Name).Name
		looks.Go(func() error {
			l.look(ctx, s.Stream, lane)
			return nil
		})
	}
	_ = looks.Wait() // errors are in Trouble
	slices.Sort(l.out.Refused)
	if ctx.Err() != nil {
		return l.out, context.Cause(ctx)
	}
	return l.out, nil
}

// looking collects the sizes of lists that are requested at the same time.
type looking struct {
	client *extract.Client

	mu    sync.Mutex
	out   Sizes
	lanes map[string]*laneLooks
}

// laneLooks is what the requests with one credential have shown.
type laneLooks struct {
	works    bool // a list was read
	failures int  // lists that failed because of the server or the credential
}

// look requests the first page of a list, unless the first lists with the same credential have failed.
func (l *looking) look(ctx context.Context, s schemas.Stream, name string) {
	l.mu.Lock()
	defer l.mu.Unlock()
	lane := l.lanes[name]
	if lane == nil {
		lane = &laneLooks{}
		l.lanes[name] = lane
	}
	if ctx.Err() != nil || !lane.works && lane.failures >= laneFailures {
		l.out.Failed++
		return
	}
	l.mu.Unlock()
	size, sent, err := lookAt(ctx, l.client, s)
	l.mu.Lock()
	l.out.Sent += sent
	if err == nil {
		l.out.Lists[s.Name], lane.works = size, true
		return
	}
	e, ok := errors.AsType[*wire.Error](err)
	if ok && (e.Class == wire.Transient && e.Status == 0 || e.Class == wire.Auth) {
		lane.failures++
	}
	l.out.Failed++
	switch {
	case ok && e.Status == http.StatusForbidden:
		l.out.Refused = append(l.out.Refused, s.Name)
	case l.out.Trouble == nil:
		l.out.Trouble = err
	}
}

// unread returns the streams of r that no run has read yet. Instead of a child stream, it returns the first ancestor.
func unread(r *open.Run, past history.PastRuns) (all []config.Stream) {
	seen := map[string]bool{}
	for _, s := range r.Streams {
		for ok := true; ok && !seen[s.Name]; {
			if _, read := past.Streams[s.Name]; read {
				break
			}
			seen[s.Name] = true
			if s.Parent == "" {
				if !s.Class.Single() || s.Class == schemas.ClassReport {
					all = append(all, s)
				}
				break
			}
			s, ok = r.Conf.Stream(s.Parent)
		}
	}
	return all
}

// lookAt returns the size of a list, and the number of requests sent.
func lookAt(ctx context.Context, c *extract.Client, s schemas.Stream) (size forecast.Size, sent int64, err error) {
	first, err := c.Start(ctx, s)
	sent = int64(first.Requests)
	if err != nil {
		return size, sent, err
	}
	size = forecast.Size{Records: max(first.Total, int64(first.Records)), Pages: 1, Probes: 1, Bytes: first.Bytes}
	size.AtLeast = first.Total < 0 && first.Records > 0 || s.Months.Set() // the page covers only one month
	if first.One {
		size.Probes = 0
	}
	if !first.More {
		return size, sent, nil
	}
	size.Probes = usualProbes
	if first.Total < 0 {
		size.Records++ // at least one more record is on the next page
	}
	onPage := int64(max(first.Records, 1))
	size.Bytes *= (size.Records + onPage - 1) / onPage
	rows := int64(max(first.Records, s.Pagination.Limit, 1))
	size.Pages = (size.Records + rows - 1) / rows
	if size.Pages > fewPages && s.Pagination.Page == "" {
		known, err := c.Negotiate(ctx, s)
		sent += int64(known.Requests)
		if err == nil && known.Pagination.Size != "" && known.Pagination.Limit > 0 {
			rows = int64(known.Pagination.Limit)
			size.Pages, size.Probes = (size.Records+rows-1)/rows, int64(known.Requests)
		}
	}
	return size, sent, nil
}
