package simcontainer

import (
	"archive/tar"
	"errors"
	"fmt"
	"io"
	"path"
	"slices"
	"strings"
)

// tarCommand is what is understood of tar's arguments: one archive on a standard stream.
type tarCommand struct {
	extract bool
	folder  string // as -C says
	names   []string
}

// parseTar reads arguments such as "cf - tmp/a" and "--no-same-owner -xmf - -C /tmp".
func parseTar(args []string) (tarCommand, error) {
	c := tarCommand{folder: "/"}
	var mode string
	for i := 0; i < len(args); i++ {
		switch arg := args[i]; {
		case strings.HasPrefix(arg, "--no-same-"), arg == "-":
		case arg == "-C":
			i++
			if i == len(args) {
				return c, errors.New("option requires an argument -- 'C'")
			}
			c.folder = args[i]
		case mode == "" && strings.Trim(strings.TrimPrefix(arg, "-"), "cxmf") == "":
			mode = arg
		default:
			c.names = append(c.names, arg)
		}
	}
	c.extract = strings.Contains(mode, "x")
	if c.extract == strings.Contains(mode, "c") {
		return c, errors.New("you must specify one of the '-c' or '-x' options")
	}
	if !strings.Contains(mode, "f") || !slices.Contains(args, "-") {
		return c, errors.New("refusing to use an archive other than '-'")
	}
	return c, nil
}

// tar is the program of that name.
func (s *session) tar(args []string) int {
	command, err := parseTar(args)
	if err != nil {
		return s.fail(2, "tar: %v", err)
	}
	if command.extract {
		err = s.extract(command)
	} else {
		err = s.archive(command)
	}
	if err != nil {
		return s.fail(2, "tar: %v", err)
	}
	return 0
}

func (s *session) archive(command tarCommand) error {
	archive := tar.NewWriter(s.out)
	for _, name := range command.names {
		found := s.files.below(path.Join(command.folder, name))
		if len(found) == 0 {
			return fmt.Errorf("%s: Cannot stat: No such file or directory", name)
		}
		for _, entry := range found {
			if err := s.archiveOne(archive, entry); err != nil {
				return err
			}
		}
	}
	return archive.Close()
}

func (s *session) archiveOne(archive *tar.Writer, name string) error {
	entry, ok := s.files.get(name)
	if !ok {
		return nil // gone meanwhile
	}
	header := &tar.Header{
		Typeflag: tar.TypeReg, Name: strings.TrimPrefix(name, "/"), Size: int64(len(entry.data)),
		Mode: int64(entry.mode.Perm()), ModTime: entry.modified,
	}
	if entry.folder() {
		header.Typeflag, header.Name = tar.TypeDir, header.Name+"/"
	}
	if err := archive.WriteHeader(header); err != nil {
		return err
	}
	_, err := archive.Write(entry.data)
	return err
}

func (s *session) extract(command tarCommand) error {
	archive := tar.NewReader(s.in)
	for {
		header, err := archive.Next()
		if errors.Is(err, io.EOF) {
			return nil
		}
		if err != nil {
			return err
		}
		name := path.Join(command.folder, absolute(header.Name))
		entry := file{mode: header.FileInfo().Mode().Perm(), modified: header.ModTime}
		switch header.Typeflag {
		case tar.TypeDir:
		case tar.TypeReg:
			data, err := io.ReadAll(io.LimitReader(archive, maxFilesBytes+1))
			if err != nil {
				return err
			}
			entry.data = append([]byte{}, data...) // never nil, which would be a folder
		default:
			s.complain("tar: %s: neither file nor folder, left out", header.Name)
			continue
		}
		if err := s.files.put(name, entry); err != nil {
			return err
		}
	}
}
