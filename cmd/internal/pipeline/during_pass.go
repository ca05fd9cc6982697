package pipeline

import (
	"context"

	"github.com/penstock-data/penstock/cmd/internal/pipeline/cursor"
	"github.com/penstock-data/penstock/cmd/internal/pipeline/overlay"
	"github.com/penstock-data/penstock/schemas"
)

// allowsDeltas reports whether deltas may commit during the pass. In modes that keep versions, deltas must not commit
// during a pass, because the pass can write only one version of each record.
func (p *pass) allowsDeltas() bool {
	s := p.stream
	return p.lock.Watched() && p.parts() && s.Table.Mode.Or(schemas.Merge) == schemas.Merge &&
		len(s.Key) == 1 && s.Parent == "" && p.run.Options.Backfill == nil && !p.run.Options.DryRun
}

func (p *pass) allowDeltas() {
	if !p.allowsDeltas() {
		return
	}
	var longest int64
	for _, k := range p.destinations {
		longest = max(longest, k.longest)
	}
	p.keys = overlay.NewKeys(longest)
	for _, k := range p.destinations {
		if !k.out {
			k.overlay = overlay.New(k.dest.Destination, p.run.passOf(p.stream, p.id, !p.resumes), p.stamp(), p.keys)
		}
	}
	p.releaseLock()
}

func (p *pass) hasOverlays() bool { return p.keys != nil }

func (p *pass) releaseLock() {
	overlays := map[string]*overlay.Overlay{}
	for _, k := range p.streamRun.destinations { // including destinations that have finished the pass while others catch up
		if k.overlay.Open() && !k.broken {
			overlays[k.dest.Name] = k.overlay
		}
	}
	p.holdsLock = false
	p.lock.AllowDeltas(overlays)
}

// retakeLock takes the lock again. The destinations then continue from the cursors that deltas have committed
// meanwhile.
func (p *pass) retakeLock(ctx context.Context) error {
	if !p.holdsLock {
		if err := p.lock.Regain(ctx); err != nil {
			return err
		}
		p.holdsLock = true
	}
	for _, k := range p.streamRun.destinations {
		if err := k.follow(ctx); err != nil {
			return err
		}
	}
	return nil
}

// follow takes the position from the cursor that deltas of this process have committed. If another process has moved
// the cursor, the next commit of k fails. // Invariant 13
func (k *destinationRun) follow(ctx context.Context) error {
	to := k.overlay.Follow(ctx, k.key, k.stored)
	if to == k.stored {
		return nil
	}
	main, err := cursor.Decode(to)
	if err != nil {
		return err
	}
	k.stored, k.main = to, main
	return nil
}
