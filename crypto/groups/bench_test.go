package groups

import (
	"fmt"
	"os"
	"path/filepath"
	"testing"
	"testing/fstest"

	"filippo.io/age"
)

// BenchmarkAddToGroupOf10000 is one more cluster in a group that has ten thousand. All but the sealing of the one envelope
// is Load.
func BenchmarkAddToGroupOf10000(b *testing.B) {
	root, alice, edge := groupOf(b, 10_000)
	files := os.DirFS(root)
	key := func(string) (string, error) { return edge.Recipient().String(), nil }
	b.Run("load", func(b *testing.B) {
		for b.Loop() {
			if _, err := Load(files); err != nil {
				b.Fatal(err)
			}
		}
	})
	set, err := Load(files)
	if err != nil {
		b.Fatal(err)
	}
	b.Run("unlock", func(b *testing.B) {
		for b.Loop() {
			if _, err := set.Unlock(repository, []age.Identity{alice}).Identity("fleet", 0); err != nil {
				b.Fatal(err)
			}
		}
	})
	ring := set.Unlock(repository, []age.Identity{alice})
	b.Run("add", func(b *testing.B) {
		for b.Loop() {
			changes, err := set.Add(repository, ring, "fleet", Member{Cluster, "new"}, key)
			if err != nil || len(changes) != 1 {
				b.Fatal(len(changes), err)
			}
		}
	})
	b.Run("statement", func(b *testing.B) {
		for b.Loop() {
			set.Statement(nil)
		}
	})
}

// groupOf writes a group of alice and n clusters to a folder.
func groupOf(b *testing.B, n int) (root string, alice, edge *age.X25519Identity) {
	b.Helper()
	var ids [2]*age.X25519Identity
	for i := range ids {
		id, err := age.GenerateX25519Identity()
		if err != nil {
			b.Fatal(err)
		}
		ids[i] = id
	}
	alice, edge = ids[0], ids[1]
	root = b.TempDir()
	if err := os.CopyFS(root, startOf(b, alice)); err != nil {
		b.Fatal(err)
	}
	for i := range n {
		path := filepath.Join(root, EnvelopeFile("fleet", Member{Cluster, fmt.Sprintf("cluster-%05d", i)}))
		if err := os.MkdirAll(filepath.Dir(path), 0o700); err != nil {
			b.Fatal(err)
		}
		if err := os.WriteFile(path, []byte("never read"), 0o600); err != nil {
			b.Fatal(err)
		}
	}
	return root, alice, edge
}

// startOf is a repository whose group fleet has the one member alice.
func startOf(b *testing.B, alice *age.X25519Identity) fstest.MapFS {
	b.Helper()
	files := fstest.MapFS{PersonFile("alice"): {Data: []byte(alice.Recipient().String() + "\n")}}
	set, err := Load(files)
	if err != nil {
		b.Fatal(err)
	}
	changes, err := set.Create(repository, "fleet", []Member{{Person, "alice"}}, CreateOptions{})
	if err != nil {
		b.Fatal(err)
	}
	for path, content := range changes {
		files[path] = &fstest.MapFile{Data: content}
	}
	return files
}
