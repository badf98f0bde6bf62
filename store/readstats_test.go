package store

import (
	"reflect"
	"testing"
)

// TestReadStatsAddUp: no field is forgotten, and the sum shares nothing with its parts.
func TestReadStatsAddUp(t *testing.T) {
	var one ReadStats
	v := reflect.ValueOf(&one).Elem()
	for i := range v.NumField() {
		switch f := v.Field(i); f.Kind() {
		case reflect.Map:
			f.Set(reflect.ValueOf(map[string]int64{"x": int64(i + 1)}))
		default:
			f.SetInt(int64(i + 1))
		}
	}
	sum := one.Plus(one)
	one.Retries["x"] = 99
	s := reflect.ValueOf(sum)
	for i := range s.NumField() {
		want, got := int64(2*(i+1)), int64(0)
		if f := s.Field(i); f.Kind() == reflect.Map {
			got = f.Interface().(map[string]int64)["x"]
		} else {
			got = f.Int()
		}
		if got != want {
			t.Errorf("%s is %d, want %d", s.Type().Field(i).Name, got, want)
		}
	}
	if empty := (ReadStats{}).Plus(ReadStats{}); empty.Calls != nil {
		t.Errorf("the sum of nothing has maps: %+v", empty)
	}
}
