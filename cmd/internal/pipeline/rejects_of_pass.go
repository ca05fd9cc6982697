package pipeline

import (
	"context"
	"fmt"
	"sync"

	"github.com/penstock-data/penstock/cmd/internal/pipeline/reject"
)

type rejectIndex struct {
	once    sync.Once
	err     error
	streams map[string]*reject.Open
}

func (r *run) openRejects(ctx context.Context, d Destination, stream string) (*reject.Open, error) {
	r.mu.Lock()
	x := r.rejectsOf[d.Name]
	if x == nil {
		x = &rejectIndex{}
		r.rejectsOf[d.Name] = x
	}
	r.mu.Unlock()
	x.once.Do(func() { x.streams, x.err = reject.ReadOpen(ctx, d, r.Name) })
	if x.err != nil {
		return nil, fmt.Errorf("read open rejects: %w", x.err)
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	if x.streams[stream] == nil {
		x.streams[stream] = reject.NewOpen()
	}
	return x.streams[stream], nil
}

// UnstoredError reports that a stream was read to its end but is not complete.
type UnstoredError struct {
	Records int64 // records that no table could store and whose loss is not accepted
	All     bool  // none of the pass's records could be stored
}

// Error states how many records are missing.
func (e *UnstoredError) Error() string {
	if e.All {
		return fmt.Sprintf("none of %d records could be stored", e.Records)
	}
	if e.Records == 1 {
		return "1 record could not be stored"
	}
	return fmt.Sprintf("%d records could not be stored", e.Records)
}
