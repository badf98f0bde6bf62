package conf

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strings"

	"github.com/stepahead-io/stepahead/internal/localfile"
)

// Load reads core-site.xml and hdfs-site.xml from the folder that HADOOP_CONF_DIR names, else from
// HADOOP_HOME/etc/hadoop. Where neither is set, or no file is there, the configuration is empty. It is an
// error when HADOOP_CONF_DIR names no folder. xi:include of local files is honoured, relative to the file that
// includes.
func Load(getenv func(string) string) (*Config, error) {
	dir := getenv("HADOOP_CONF_DIR")
	if dir != "" {
		if info, err := os.Stat(dir); err != nil {
			return nil, fmt.Errorf("conf.Load: HADOOP_CONF_DIR: %w", err)
		} else if !info.IsDir() {
			return nil, fmt.Errorf("conf.Load: HADOOP_CONF_DIR: %s is not a folder", dir)
		}
	} else if home := getenv("HADOOP_HOME"); home != "" {
		dir = filepath.Join(home, "etc", "hadoop")
	}
	if dir == "" {
		return Parse(getenv)
	}
	return loadDir(dir, getenv)
}

// loadDir reads the files of one folder; a missing file is an empty one.
func loadDir(dir string, getenv func(string) string) (*Config, error) {
	var files []Source
	for _, name := range []string{"core-site.xml", "hdfs-site.xml"} {
		f, err := readSource(filepath.Join(dir, name))
		if errors.Is(err, fs.ErrNotExist) {
			continue
		}
		if err != nil {
			return nil, fmt.Errorf("conf.Load: %w", err)
		}
		files = append(files, f)
	}
	return Parse(getenv, files...)
}

func readSource(path string) (Source, error) {
	data, err := localfile.Read(path, maxFile)
	if err != nil {
		return Source{}, err
	}
	include := func(href string) (Source, error) {
		href = strings.TrimPrefix(href, "file://")
		if !filepath.IsAbs(href) {
			href = filepath.Join(filepath.Dir(path), href)
		}
		return readSource(href)
	}
	return Source{Name: path, Data: data, Include: include}, nil
}
