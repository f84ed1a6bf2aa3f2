"""Documents of people to text: PDF, Word, Excel, PowerPoint, EPUB, web pages and text in old encodings."""
