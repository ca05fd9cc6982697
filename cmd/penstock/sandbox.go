package main

import (
	"context"
	"errors"
	"fmt"
	"net"
	"net/http"
	"slices"
	"time"

	"github.com/spf13/cobra"

	"github.com/penstock-data/penstock/cmd/internal/failure"
	"github.com/penstock-data/penstock/cmd/internal/render"
	"github.com/penstock-data/penstock/extract/sandbox"
	"github.com/penstock-data/penstock/extract/wire/budget"
)

// The sandbox's default address and its fixed credentials.
const (
	sandboxListen   = "127.0.0.1:8787"
	sandboxAPIKey   = "sk_sandbox_readonly"
	sandboxAppToken = "pat_sandbox_readonly"
	sandboxLogin    = "demo@example.test"
	sandboxPassword = "sandbox"
)

// sandboxFlags are the flags for [sandbox.Options].
type sandboxFlags struct {
	listen  string
	options sandbox.Options
	appRate string
	reset   string
	faults  []string
	lists   []string
	off     []string
	hook    hookFlags
}

func sandboxCmd(a *app) *cobra.Command {
	var f sandboxFlags
	cmd := &cobra.Command{
		Use:   "sandbox",
		Short: "run a small imitation of the platform on localhost, with faults on demand",
		Long: `Runs a small imitation of the platform on localhost, until it is interrupted: both
surfaces over real HTTP, with seeded records, limits and credentials.

--fault takes MATCH=KIND[,NAME=VALUE]…. MATCH is a stream ("crm.*"), a path or "METHOD /path".
These are the kinds, which extract/sandbox/fault.go describes:
  status, slow, truncate, cut, reset, lost, html, empty, malformed, gzip_bomb,
  drift, shuffle, stuck, module_off, redirect, field, poison, stale
While the sandbox runs, GET /_sandbox/stats returns what it has received, and
POST /_sandbox/faults replaces these faults.

--faults also serves lists with the paging and the faults of other APIs. It takes "all",
names, or a JSON file that describes a list. Each list is at /lists/NAME, for a stream of
your own; "penstock sandbox --faults help" prints the names. Some lists show their fault
only after POST /_sandbox/lists: send it between two syncs.

With --webhook, the sandbox sends every change of its records to this URL as a signed
POST. GET /_sandbox/webhooks/log returns the deliveries and their outcomes.

--webhook-fault takes NAME=SHARE,… with shares of deliveries between 0 and 1. These are
the names: duplicate, reorder, delay, loss, conflict, unknown, forged. It also takes
window=N and delay_for=TIME: see extract/sandbox/webhook_plan.go. --webhook-flood takes
NAME=VALUE,… with these names: rate, for, count, match, subjects, change, bytes. See
extract/sandbox/webhook_flood.go.`,
		Example: `  penstock sandbox --plan business --latency 30ms
  penstock sandbox --fault 'crm.*=status,status=503,count=3' --fault 'hr.leads=html'
  penstock sandbox --faults cursor_header,link_array,partial
  penstock sandbox --webhook http://127.0.0.1:8080/webhooks/main --webhook-fault duplicate=0.1,reorder=0.3`,
		Args: cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error { return runSandbox(cmd.Context(), a, f) },
	}
	o := &f.options
	fl := cmd.Flags()
	fl.StringVar(&f.listen, "listen", sandboxListen, "`address` to listen on; port 0 picks a free one")
	fl.Uint64Var(&o.Seed, "seed", 1, "`seed` of all data")
	fl.IntVar(&o.Scale, "scale", 1, "`factor` for the length of the lists that grow with a business")
	fl.IntVar(&o.Contacts, "contacts", 0, "for measurements: serve `N` contacts that are rendered in advance, not the contacts that the seed makes")
	fl.StringVar(&o.Plan, "plan", "pro", "`plan` of the versioned surface: free, pro, business or agency")
	fl.IntVar(&o.Rate, "rate", 0, "limit of `requests` per second on the versioned surface, instead of the plan's")
	fl.StringVar(&f.appRate, "app-rate", "200/s", "`rate` limit of the application surface; no response announces the limit")
	fl.BoolVar(&o.NoLimits, "no-limits", false, "enforce no rate limits")
	fl.StringVar((*string)(&o.Counting), "counting", "sliding", "how the rate limits count requests: sliding (sliding windows), fixed (fixed windows) or bucket (token bucket)")
	fl.StringVar(&f.reset, "reset", "delta", "unit of X-RateLimit-Reset: delta, epoch or epoch_ms")
	fl.DurationVar(&o.Latency, "latency", 0, "`delay` before each response")
	fl.BoolVar(&o.Gzip, "gzip", true, "compress responses for clients that accept gzip")
	fl.StringArrayVar(&f.faults, "fault", nil, "`fault` to inject; may be repeated")
	fl.StringSliceVar(&f.lists, "faults", nil, "`lists` with unusual paging and faults: all, help, names, or FILE.json")
	fl.StringSliceVar(&f.off, "module-off", nil, "`modules` that the plan does not include")
	f.hook.register(fl)
	cmd.AddCommand(demoCmd(a))
	return cmd
}

// parse returns the options. It parses the flags that cobra returns as texts.
func (f *sandboxFlags) parse() (sandbox.Options, error) {
	o := f.options
	rate, err := budget.ParseRate(f.appRate)
	if err != nil {
		return o, failure.Usage("", "--app-rate: %w", err)
	}
	o.AppRate = sandbox.Rate{Requests: rate.Limit, Window: rate.Window}
	switch u := sandbox.ResetUnit(f.reset); u {
	case sandbox.ResetDelta, sandbox.ResetEpoch, sandbox.ResetEpochMs:
		o.Reset = u
	default:
		return o, failure.Usage("", "--reset %q: want delta, epoch or epoch_ms", f.reset)
	}
	if o.Scale < 1 || o.Contacts < 0 || o.Rate < 0 || o.Latency < 0 {
		return o, failure.Usage("", "--scale must be at least 1; --contacts, --rate and --latency cannot be negative")
	}
	for _, text := range f.faults {
		fault, err := sandbox.ParseFault(text)
		if err != nil {
			return o, failure.Usage("`penstock sandbox --help` lists the kinds", "--fault: %w", err)
		}
		o.Faults = append(o.Faults, fault)
	}
	if o.Lists, err = namedLists(f.lists); err != nil {
		return o, err
	}
	o.Modules = map[string]bool{}
	for _, m := range f.off {
		o.Modules[m] = false
	}
	return o, nil
}

// runSandbox serves until the context ends. The end of the context is not an error.
func runSandbox(ctx context.Context, a *app, f sandboxFlags) error {
	if slices.Contains(f.lists, "help") {
		return printLists(a)
	}
	o, err := f.parse()
	if err != nil {
		return err
	}
	hook, flood, err := f.hook.parse()
	if err != nil {
		return err
	}
	s, err := serveSandbox(f.listen, o)
	if err != nil {
		return err
	}
	err = s.subscribe(hook) // before the announcement, which says that the sandbox runs
	if err == nil {
		err = errors.Join(announceSandbox(a, s.url), announceLists(a, o.Lists))
	}
	if err == nil {
		err = s.flood(ctx, flood)
	}
	if err != nil {
		return errors.Join(err, s.close())
	}
	select {
	case <-ctx.Done():
		return s.close()
	case err := <-s.failed:
		return fmt.Errorf("serve sandbox: %w", err)
	}
}

// announceSandbox prints the address and the credentials of the sandbox, as text or as JSON.
func announceSandbox(a *app, url string) error {
	if a.json {
		return render.NewEncoder(a.out).Encode(map[string]string{
			"url": url, "api_key": sandboxAPIKey, "app_token": sandboxAppToken, "email": sandboxLogin, "password": sandboxPassword,
		})
	}
	_, err := fmt.Fprintf(a.out, `sandbox on %s

  v2 api key   %s
  app token    %s
  app login    %s / %s

in another terminal: penstock sync`, url, sandboxAPIKey, sandboxAppToken, sandboxLogin, sandboxPassword)
	if err == nil && url != "http://"+sandboxListen {
		_, err = fmt.Fprintf(a.out, " (with base_url: %s in pipelines.yaml)", url)
	}
	if err == nil {
		_, err = fmt.Fprint(a.out, "\npress ctrl-c to stop\n")
	}
	return err
}

// served is a running sandbox.
type served struct {
	url     string
	handler *sandbox.Server
	server  *http.Server
	failed  chan error
}

// serveSandbox listens and serves in the background, until close() is called.
func serveSandbox(listen string, o sandbox.Options) (*served, error) {
	handler, err := sandbox.New(o)
	if err != nil {
		return nil, failure.Usage("", "%w", err)
	}
	if _, _, err := net.SplitHostPort(listen); err != nil {
		return nil, failure.Usage("--listen 127.0.0.1:0 picks a free port", "--listen %q: want HOST:PORT", listen)
	}
	l, err := net.Listen("tcp", listen)
	if err != nil {
		return nil, failure.Hinted(fmt.Errorf("open sandbox: %w", err), "--listen 127.0.0.1:0 picks a free port")
	}
	s := &served{
		url:     "http://" + l.Addr().String(),
		handler: handler,
		server:  &http.Server{Handler: handler, ReadHeaderTimeout: 10 * time.Second},
		failed:  make(chan error, 1),
	}
	go func() {
		if err := s.server.Serve(l); !errors.Is(err, http.ErrServerClosed) {
			s.failed <- err
		}
		close(s.failed)
	}()
	return s, nil
}

// close lets open requests finish within a second, and then ends them.
func (s *served) close() error {
	ctx, cancel := context.WithTimeout(context.Background(), time.Second)
	defer cancel()
	if err := s.server.Shutdown(ctx); err != nil {
		_ = s.server.Close() // cuts off responses that are still being sent
	}
	for range s.failed { // wait until Serve has returned
	}
	return s.handler.Close()
}
