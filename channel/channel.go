package channel

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"log/slog"
	"sync"
	"time"

	"github.com/ferry-fleet/ferry"
	"github.com/ferry-fleet/ferry/authority"
	"github.com/ferry-fleet/ferry/internal/atomicfile"
	"github.com/ferry-fleet/ferry/internal/sqlite"
	"github.com/ferry-fleet/ferry/sign"
)

// Config says where a channel is on this machine.
type Config struct {
	Folder string       // the synced folder
	State  string       // the state directory of this one channel
	Judge  ferry.Judge  // classifies results; it must be pure
	Log    *slog.Logger // nil discards
	Limits Limits       // zero fields have the values of the format's documentation
}

// Errors that a caller may act on. Those about orders carry more in their text.
var (
	ErrOtherChannel = errors.New("the folder belongs to another channel")
	ErrNoRoot       = errors.New("the root record is neither in the folder nor in the store")
	ErrNotMember    = errors.New("not a member of the channel")
)

// Channel is an open channel. Its methods are safe for concurrent use, and several processes may have it open.
type Channel struct {
	cfg   Config
	id    ferry.RecordID
	log   *slog.Logger
	store *store
	db    *sqlite.Database
	lock  *lock
	at    func(step string) // called between the steps of a write; tests end the process there
	dirs  map[string]*dir   // what was seen in the folder, by directory; guarded by lock
	seen  *memory

	tried int64            // the turn of the roster under which files were refused; guarded by lock
	ahead map[chain]uint64 // the highest numbers that are signed and not in the store; guarded by lock

	building sync.Mutex
	active   map[ferry.RecordID]ferry.Task // guarded by building

	mu      sync.Mutex
	roster  *authority.Roster
	turn    int64 // how often the roster of the index was computed when roster was
	synced  int64 // size of the log that the index was seen to cover
	changes int64 // of the names in the folder that are not read
	current *Snapshot
	shown   snapshotStamp // of current
}

// FoundSpec describes a channel that does not exist yet.
type FoundSpec struct {
	Project  string
	Master   ferry.Member // its Writer and Key are those of Key
	Key      sign.Key
	Recovery []sign.PublicKey
	Now      time.Time
}

// Found makes a channel whose root of authority is the key in spec, and opens it. A folder that holds a channel already is
// refused. After a crash or a full disk it can be called again with the same key, and goes on with the channel it had begun.
func Found(ctx context.Context, cfg Config, spec FoundSpec) (*Channel, error) {
	if err := atomicfile.MkdirAll(cfg.State, 0o700); err != nil {
		return nil, fmt.Errorf("found channel: %w", err)
	}
	id, err := foundStore(ctx, cfg, spec)
	if err != nil {
		return nil, fmt.Errorf("found channel: %w", err)
	}
	if err := atomicfile.MkdirAll(cfg.Folder, folderMode); err != nil {
		return nil, fmt.Errorf("found channel: %w", err)
	}
	c, err := Open(ctx, cfg, id)
	if err != nil {
		return nil, fmt.Errorf("found channel: %w", err)
	}
	if err := c.publishRoot(ctx); err != nil {
		return nil, errors.Join(fmt.Errorf("found channel: %w", err), c.Close())
	}
	return c, nil
}

// foundStore makes the store with its root record, or finds that an earlier call has made it.
func foundStore(ctx context.Context, cfg Config, spec FoundSpec) (ferry.RecordID, error) {
	l := newLock(cfg.lockPath())
	if err := l.acquire(ctx); err != nil {
		return ferry.RecordID{}, err
	}
	defer l.close()
	defer l.release()
	own := ferry.WriterID(spec.Key.Public().WriterID())
	begun, err := begunBy(cfg, own)
	if err != nil {
		return begun, err
	}
	roots, err := rootsIn(cfg.Folder)
	if err != nil {
		return begun, err
	}
	for _, r := range roots {
		if r.id != begun {
			return begun, fmt.Errorf("%s holds the channel %s already; join that one, or choose an empty folder: %w", cfg.Folder, r.id, ErrOtherChannel)
		}
	}
	if !begun.IsZero() {
		return begun, nil
	}
	file, err := sealRoot(spec)
	if err != nil {
		return begun, err
	}
	r, err := parseStored(file)
	if err != nil {
		return begun, err
	}
	return r.id, createStore(cfg.storePath(), r.id, frame{data: file, own: true})
}

// begunBy gives the channel of a store that an unfinished Found left, and refuses a store of anybody else.
func begunBy(cfg Config, own ferry.WriterID) (ferry.RecordID, error) {
	s, id, err := openStore(cfg.storePath())
	if errors.Is(err, fs.ErrNotExist) {
		return ferry.RecordID{}, nil
	}
	if err != nil {
		return id, err
	}
	defer s.close()
	mine := false
	_, _, err = s.scan(0, func(f frame) error {
		if r, err := parseStored(f.data); err == nil && r.id == id {
			mine = ferry.WriterID(r.head.Writer) == own
		}
		return nil
	})
	if err == nil && !mine {
		err = fmt.Errorf("%s holds the channel %s, which another key founded: %w", cfg.State, id, ErrOtherChannel)
	}
	return id, err
}

func sealRoot(spec FoundSpec) ([]byte, error) {
	public := spec.Key.Public()
	root := &ferry.Root{Generation: 0, Version: 1, Project: spec.Project, Master: spec.Master, Threshold: 1, Recovery: []string{}}
	root.Master.Writer, root.Master.Key = ferry.WriterID(public.WriterID()), public.String()
	for _, k := range spec.Recovery {
		root.Recovery = append(root.Recovery, k.String())
	}
	body, err := encodeBody(root)
	if err != nil {
		return nil, err
	}
	return sign.Seal(spec.Key, sign.Header{
		Type: string(ferry.TypeRoot), Writer: public.WriterID(), Epoch: 1, Seq: 1, Time: spec.Now,
	}, body)
}

// Open opens the channel with an id that the caller has pinned. Without a store, the folder must hold the channel's root
// record; the rest arrives with Refresh. A folder of another channel is refused.
func Open(ctx context.Context, cfg Config, id ferry.RecordID) (*Channel, error) {
	if cfg.Judge == nil {
		return nil, errors.New("open channel: no judge of results is configured")
	}
	if cfg.Log == nil {
		cfg.Log = slog.New(slog.DiscardHandler)
	}
	if err := atomicfile.MkdirAll(cfg.State, 0o700); err != nil {
		return nil, fmt.Errorf("open channel %s: %w", id.Short(), err)
	}
	c := &Channel{
		cfg: cfg, id: id, log: cfg.Log, lock: newLock(cfg.lockPath()), at: func(string) {},
		dirs: map[string]*dir{}, seen: newMemory(), ahead: map[chain]uint64{}, roster: emptyRoster(id), active: map[ferry.RecordID]ferry.Task{},
	}
	if err := c.open(ctx); err != nil {
		return nil, errors.Join(fmt.Errorf("open channel %s: %w", id.Short(), err), c.Close())
	}
	return c, nil
}

func (c *Channel) open(ctx context.Context) error {
	if err := c.lock.acquire(ctx); err != nil {
		return err
	}
	defer c.lock.release()
	s, id, err := openStore(c.cfg.storePath())
	if errors.Is(err, fs.ErrNotExist) {
		if err := c.adopt(); err != nil {
			return err
		}
		s, id, err = openStore(c.cfg.storePath())
	}
	if err != nil {
		return err
	}
	c.store = s
	if id != c.id {
		return fmt.Errorf("%s holds the channel %s: %w", c.cfg.State, id, ErrOtherChannel)
	}
	if err := c.repunch(); err != nil {
		return err
	}
	if c.db, err = sqlite.Open(ctx, c.cfg.indexPath(), indexSchema, indexVersion); err != nil {
		return err
	}
	if c.db.Aside != "" {
		c.log.Warn("the index was damaged and is built again", "aside", c.db.Aside)
	}
	return c.catchUp(ctx)
}

// adopt begins a store with the root record from the folder.
func (c *Channel) adopt() error {
	roots, err := rootsIn(c.cfg.Folder)
	if err != nil {
		return err
	}
	for _, r := range roots {
		if r.id == c.id {
			return createStore(c.cfg.storePath(), c.id, frame{data: r.bytes})
		}
	}
	if len(roots) > 0 {
		return fmt.Errorf("%s holds the channel %s: %w", c.cfg.Folder, roots[0].id, ErrOtherChannel)
	}
	return fmt.Errorf("%s: %w; wait until the folder has been synced, or set its path right", c.cfg.Folder, ErrNoRoot)
}

// ID gives the id of the channel: that of its root record.
func (c *Channel) ID() ferry.RecordID { return c.id }

// Close releases the files. Everything that was written is durable already.
func (c *Channel) Close() error {
	var errs []error
	if c.db != nil {
		errs = append(errs, c.db.Close())
	}
	if c.store != nil {
		errs = append(errs, c.store.close())
	}
	return errors.Join(append(errs, c.lock.close())...)
}

// Members lists the members, the master first.
func (c *Channel) Members(ctx context.Context) ([]ferry.Member, error) {
	if err := c.sync(ctx); err != nil {
		return nil, err
	}
	return c.authority().Members(), nil
}

// Master gives the member whose key is the root of authority.
func (c *Channel) Master(ctx context.Context) (ferry.Member, error) {
	if err := c.sync(ctx); err != nil {
		return ferry.Member{}, err
	}
	m, ok := c.authority().Master()
	if !ok {
		return m, fmt.Errorf("channel %s: %w", c.id.Short(), ErrNoRoot)
	}
	return m, nil
}

// signed notes that a number is in use, though its record cannot be taken in yet. It needs the lock.
func (c *Channel) signed(ch chain, seq uint64) { c.ahead[ch] = max(c.ahead[ch], seq) }

// authority gives the roster as of the last look at the index.
func (c *Channel) authority() *authority.Roster {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.roster
}
