//! A table of bounded size whose keys are never valid twice.

/// A place's content and how often it has been used.
#[derive(Debug)]
struct Place<T> {
    generation: u32,
    content: Option<T>,
}

/// Up to `capacity` values, each under an index and a generation.
#[derive(Debug)]
pub(super) struct Slab<T> {
    places: Vec<Place<T>>,
    free: Vec<u32>,
    capacity: usize,
}

impl<T> Slab<T> {
    pub(super) fn new(capacity: usize) -> Slab<T> {
        Slab {
            places: Vec::new(),
            free: Vec::new(),
            capacity,
        }
    }

    /// Takes in what `make` makes of its key, if there is room.
    pub(super) fn insert(&mut self, make: impl FnOnce(u32, u32) -> T) -> Option<(u32, u32)> {
        let index = match self.free.pop() {
            Some(index) => index,
            None if self.places.len() < self.capacity => {
                self.places.push(Place {
                    generation: 0,
                    content: None,
                });
                (self.places.len() - 1) as u32
            }
            None => return None,
        };
        let place = &mut self.places[index as usize];
        place.content = Some(make(index, place.generation));
        Some((index, place.generation))
    }

    pub(super) fn get(&self, index: u32, generation: u32) -> Option<&T> {
        let place = self.places.get(index as usize)?;
        place
            .content
            .as_ref()
            .filter(|_| place.generation == generation)
    }

    pub(super) fn get_mut(&mut self, index: u32, generation: u32) -> Option<&mut T> {
        let place = self.places.get_mut(index as usize)?;
        place
            .content
            .as_mut()
            .filter(|_| place.generation == generation)
    }

    pub(super) fn remove(&mut self, index: u32, generation: u32) -> Option<T> {
        let place = self.places.get_mut(index as usize)?;
        if place.generation != generation {
            return None;
        }
        let content = place.content.take()?;
        place.generation = place.generation.wrapping_add(1);
        self.free.push(index);
        Some(content)
    }

    pub(super) fn len(&self) -> usize {
        self.places.len() - self.free.len()
    }

    /// All values with their keys, in the order of their places.
    pub(super) fn iter(&self) -> impl Iterator<Item = ((u32, u32), &T)> {
        self.places.iter().enumerate().filter_map(|(index, place)| {
            let content = place.content.as_ref()?;
            Some(((index as u32, place.generation), content))
        })
    }

    /// As [`Slab::iter`], to be changed.
    pub(super) fn iter_mut(&mut self) -> impl Iterator<Item = ((u32, u32), &mut T)> {
        self.places
            .iter_mut()
            .enumerate()
            .filter_map(|(index, place)| {
                let content = place.content.as_mut()?;
                Some(((index as u32, place.generation), content))
            })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn there_is_room_for_as_many_as_it_was_made_for() {
        let mut slab = Slab::new(2);
        let first = slab
            .insert(|index, generation| (index, generation))
            .unwrap();
        let second = slab
            .insert(|index, generation| (index, generation))
            .unwrap();
        assert_eq!(slab.insert(|index, generation| (index, generation)), None);
        assert_eq!(slab.remove(first.0, first.1), Some(first));
        // The key of what has gone is not that of what has its place.
        let third = slab
            .insert(|index, generation| (index, generation))
            .unwrap();
        assert_eq!(third, (first.0, first.1 + 1));
        assert_eq!(slab.get(first.0, first.1), None);
        assert_eq!(slab.get_mut(first.0, first.1), None);
        assert_eq!(slab.remove(first.0, first.1), None);
        let all: Vec<_> = slab.iter().map(|(key, _)| key).collect();
        assert_eq!((all, slab.len()), (vec![third, second], 2));
    }
}
