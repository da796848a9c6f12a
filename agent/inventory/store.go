package inventory

import (
	"context"
	"crypto/sha256"
	"encoding/json"
	"errors"
	"fmt"
	"sync"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/dynamic"
	"k8s.io/client-go/metadata"

	"github.com/pluralsh/plural/agent/object"
)

// stored is the state of the cluster that an inventory was loaded from, or saved to.
type stored struct {
	version string            // resourceVersion of the head; empty: there is none
	digest  [sha256.Size]byte // of the text; zero: it has to be written anew
	chunked bool              // chunks may be there
}

// Store keeps inventories in ConfigMaps. It is safe for concurrent use, an Inventory is not.
//
// An inventory that does not fit into one ConfigMap is saved in this order: its chunks, the head that names them, by
// compare-and-swap, then the chunks of before are deleted. Whoever is killed in between leaves the old inventory or
// the new one, and chunks that the next save deletes.
type Store struct {
	objects  dynamic.Interface
	metadata metadata.Interface
	codec    func() (*codec, error)
	chunk    int // most bytes in one ConfigMap
}

// NewStore keeps inventories in the cluster of the clients.
func NewStore(objects dynamic.Interface, metadata metadata.Interface) *Store {
	return &Store{objects, metadata, sync.OnceValues(newCodec), maxChunk}
}

func (s *Store) configMaps() dynamic.ResourceInterface {
	return s.objects.Resource(configMaps()).Namespace(object.SystemNamespace)
}

// Save writes the inventory when it differs from what is stored. It fails with ErrConflict when that is no longer what
// was loaded; the inventory is then to be loaded again.
func (s *Store) Save(ctx context.Context, inv *Inventory) error {
	if err := s.save(ctx, inv); err != nil {
		return fmt.Errorf("write inventory of service %q: %w", inv.Service, err)
	}
	return nil
}

func (s *Store) save(ctx context.Context, inv *Inventory) error {
	text, err := encode(inv)
	if err != nil {
		return err
	}
	digest := sha256.Sum256(text)
	if inv.Stored() && digest == inv.stored.digest {
		return nil
	}
	codec, err := s.codec()
	if err != nil {
		return err
	}
	packed := codec.pack(text)
	if len(packed) <= s.chunk && !inv.stored.chunked {
		version, err := s.writeHead(ctx, inv, packedHead(inv.Service, packed))
		if err == nil {
			inv.stored = stored{version: version, digest: digest}
		}
		return err
	}
	return s.saveChunks(ctx, inv, packed, digest)
}

// saveChunks is save for an inventory that has chunks, or had some. The chunks of before are listed first: what others
// write from now on, on top of this version, is not for this save to delete.
func (s *Store) saveChunks(ctx context.Context, inv *Inventory, packed []byte, digest [sha256.Size]byte) error {
	old, err := s.chunks(ctx, inv.Service)
	if err != nil {
		return err
	}
	head := packedHead(inv.Service, packed)
	var chunks []chunk
	if len(packed) > s.chunk {
		chunks = split(inv, packed, s.chunk)
		if head, err = s.writeChunks(ctx, inv, chunks); err != nil {
			return err
		}
	}
	version, err := s.writeHead(ctx, inv, head)
	if err != nil {
		return err
	}
	inv.stored = stored{version: version, digest: digest, chunked: true}
	for _, c := range chunks {
		delete(old, c.Name)
	}
	// The inventory stands. What is left of the old one does no harm, and the next save tries again to delete it.
	inv.stored.chunked = s.deleteChunks(ctx, old) != nil || len(chunks) > 0
	return nil
}

// writeChunks returns the head for them.
func (s *Store) writeChunks(ctx context.Context, inv *Inventory, chunks []chunk) (*unstructured.Unstructured, error) {
	for _, c := range chunks {
		_, err := s.create(ctx, c.configMap(inv.Service))
		if apierrors.IsAlreadyExists(err) {
			err = s.checkChunk(ctx, inv, c)
		}
		if err != nil {
			return nil, err
		}
	}
	text, err := json.Marshal(index{indexFormat, inv.Service, chunks})
	if err != nil {
		return nil, fmt.Errorf("encode: %w", err)
	}
	return indexHead(inv.Service, string(text)), nil
}

// checkChunk looks at a chunk that was there already: a save that was killed before its head may have left it.
func (s *Store) checkChunk(ctx context.Context, inv *Inventory, c chunk) error {
	obj, err := s.configMaps().Get(ctx, c.Name, metav1.GetOptions{})
	if err != nil {
		return err
	}
	if _, err := c.content(obj); err != nil {
		return &Error{inv.Service, c.Name, "delete it: no inventory needs it", err, inv.stored.version}
	}
	return nil
}

// writeHead returns the new resourceVersion.
func (s *Store) writeHead(ctx context.Context, inv *Inventory, head *unstructured.Unstructured) (string, error) {
	var saved *unstructured.Unstructured
	var err error
	if inv.Stored() {
		head.SetResourceVersion(inv.stored.version)
		saved, err = s.configMaps().Update(ctx, head, metav1.UpdateOptions{FieldManager: object.Manager})
	} else {
		saved, err = s.create(ctx, head)
	}
	if apierrors.IsConflict(err) || apierrors.IsAlreadyExists(err) || inv.Stored() && apierrors.IsNotFound(err) {
		return "", fmt.Errorf("%w: %w", ErrConflict, err)
	}
	if err != nil {
		return "", err
	}
	return saved.GetResourceVersion(), nil
}

// create also makes the namespace, when that is what is missing. It belongs to no service, so nothing ever deletes it.
func (s *Store) create(ctx context.Context, obj *unstructured.Unstructured) (*unstructured.Unstructured, error) {
	options := metav1.CreateOptions{FieldManager: object.Manager}
	created, err := s.configMaps().Create(ctx, obj, options)
	if !apierrors.IsNotFound(err) {
		return created, err
	}
	patch := fmt.Appendf(nil, `{"apiVersion":"v1","kind":"Namespace","metadata":{"name":%q}}`, object.SystemNamespace)
	if _, err := s.metadata.Resource(namespaces()).Patch(ctx, object.SystemNamespace, types.ApplyPatchType, patch,
		metav1.PatchOptions{FieldManager: object.Manager}); err != nil {
		return nil, err
	}
	return s.configMaps().Create(ctx, obj, options)
}

// Remove deletes the inventory. It fails with ErrConflict when it is no longer what was loaded.
func (s *Store) Remove(ctx context.Context, inv *Inventory) error {
	if err := s.remove(ctx, inv); err != nil {
		return fmt.Errorf("delete inventory of service %q: %w", inv.Service, err)
	}
	return nil
}

// remove first makes an inventory in chunks an empty one in its head, so that no head ever names chunks that are gone.
func (s *Store) remove(ctx context.Context, inv *Inventory) error {
	if !inv.Stored() {
		return nil
	}
	if inv.stored.chunked {
		empty := *inv
		empty.Entries, empty.Hooks = nil, nil
		if err := s.save(ctx, &empty); err != nil {
			return err
		}
		inv.stored = empty.stored
		old, err := s.chunks(ctx, inv.Service)
		if err == nil {
			err = s.deleteChunks(ctx, old)
		}
		if err != nil {
			return err
		}
	}
	err := s.configMaps().Delete(ctx, headPrefix+inv.Service,
		metav1.DeleteOptions{Preconditions: &metav1.Preconditions{ResourceVersion: &inv.stored.version}})
	if apierrors.IsConflict(err) {
		return fmt.Errorf("%w: %w", ErrConflict, err)
	}
	if err != nil && !apierrors.IsNotFound(err) {
		return err
	}
	inv.stored = stored{}
	return nil
}

// chunks lists what chunks of a service there are, by name, with their uids.
func (s *Store) chunks(ctx context.Context, service string) (map[string]types.UID, error) {
	list, err := s.metadata.Resource(configMaps()).Namespace(object.SystemNamespace).
		List(ctx, metav1.ListOptions{LabelSelector: chunkLabel + "=" + service})
	if err != nil {
		return nil, fmt.Errorf("list chunks: %w", err)
	}
	found := map[string]types.UID{}
	for i := range list.Items {
		found[list.Items[i].Name] = list.Items[i].UID
	}
	return found, nil
}

func (s *Store) deleteChunks(ctx context.Context, chunks map[string]types.UID) error {
	var failed []error
	for name, uid := range chunks {
		err := s.configMaps().Delete(ctx, name, metav1.DeleteOptions{Preconditions: &metav1.Preconditions{UID: &uid}})
		if err != nil && !apierrors.IsNotFound(err) {
			failed = append(failed, err)
		}
	}
	return errors.Join(failed...)
}
